package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"klink/cmd/lab/mm2"
)

// options are the command line.
type options struct {
	only    []string // names of workloads, in their own order
	systems []string // klink, klink:checkpoint, loop, mm2 or mm2:SETTINGS
	rounds  int
	long    bool
	verify  bool
	json    string // path; "" writes none
}

func parseOptions(args []string, usage io.Writer) (options, error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(usage)
	only := fs.String("only", "", "comma-separated `workloads`, by default all: "+strings.Join(workloadNames(), ","))
	systems := fs.String("systems", "klink,mm2,loop", "comma-separated `systems`: klink, klink:checkpoint, loop, mm2 (the best settings), mm2:NAME for "+strings.Join(mm2.Names(), ", "))
	rounds := fs.Int("rounds", 3, "rounds over all systems, per workload")
	size := fs.String("size", "long", "short to see that it works, long for figures")
	verify := fs.Bool("verify", true, "compare klink's first copy of each workload record by record")
	json := fs.String("json", "", "also write every run to `FILE`")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	o := options{rounds: *rounds, long: *size == "long", verify: *verify, json: *json}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *size != "short" && *size != "long" {
		return o, fmt.Errorf("-size %q: want short or long", *size)
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds %d: want at least 1", o.rounds)
	}
	var err error
	if o.only, err = choose("-only", *only, workloadNames()); err != nil {
		return o, err
	}
	o.systems, err = choose("-systems", *systems, systemNames())
	return o, err
}

// choose picks from what there is, keeping its order; nothing picks all.
func choose(what, list string, known []string) ([]string, error) {
	if list == "" {
		return known, nil
	}
	picked := strings.Split(list, ",")
	for _, name := range picked {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s %q: there are %s", what, name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(known), func(name string) bool { return !slices.Contains(picked, name) }), nil
}
