package app

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"klink/cmd/config"
)

// The names of flags.
const (
	flagConfig    = "config"
	flagLink      = "link"
	flagSource    = "source"
	flagTarget    = "target"
	flagTopic     = "topic"
	flagGroup     = "group"
	flagMode      = "mode"
	flagHTTP      = "http"
	flagLogLevel  = "log-level"
	flagLogFormat = "log-format"
	flagOutput    = "output"
)

// variableConfig names the file where no flag says what to mirror.
const variableConfig = "KLINK_CONFIG"

// withoutFile heads the flags that make a link where there is no file.
const withoutFile = "Without a file:"

// linkFlags say which links a command is about.
func linkFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagConfig, Aliases: []string{"c"}, Usage: "read the configuration from `FILE`, by default from $" + variableConfig},
		&cli.StringFlag{Name: flagLink, Usage: "of the file's links, only the one called `NAME`; with --target alone, the one of that name on record there"},
		&cli.StringSliceFlag{Name: flagSource, Category: withoutFile, Usage: "bootstrap address `HOST:PORT` of the source"},
		&cli.StringSliceFlag{Name: flagTarget, Category: withoutFile, Usage: "bootstrap address `HOST:PORT` of the target"},
		&cli.StringSliceFlag{Name: flagTopic, Category: withoutFile, Usage: "topics by `PATTERN`: a name, a glob with *, a /regular expression/ or =literal"},
		&cli.StringSliceFlag{Name: flagGroup, Category: withoutFile, Usage: "consumer groups to carry over, by `PATTERN`"},
		&cli.StringFlag{Name: flagMode, Category: withoutFile, Usage: "`MODE` of the link, mirror or checkpoint"},
	}
}

func httpFlag(usage string) cli.Flag { return &cli.StringFlag{Name: flagHTTP, Usage: usage} }

func logFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: flagLogLevel, Usage: "log from `LEVEL` on: debug, info, warn or error"},
		&cli.StringFlag{Name: flagLogFormat, Usage: "log as `FORMAT`: text or json"},
	}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: flagOutput, Aliases: []string{"o"}, Value: "table", Usage: "print the result as `FORMAT`: table or json"}
}

// wantsJSON reads the output flag.
func wantsJSON(c *cli.Context) (bool, error) {
	switch o := c.String(flagOutput); o {
	case "json":
		return true, nil
	case "table":
		return false, nil
	default:
		return false, &UsageError{Command: c.Command.Name, What: fmt.Sprintf("%q is no format for -o; allowed: table, json", o)}
	}
}

// noTopics refuses words that the command has no use for.
func noTopics(c *cli.Context) error {
	if c.Args().Present() {
		return &UsageError{Command: c.Command.Name, What: fmt.Sprintf("takes no topics, but got %q", c.Args().First())}
	}
	return nil
}

// settings are the flags that override single keys of the process.
var settings = []struct{ flag, key string }{
	{flagHTTP, "http.listen"}, {flagLogLevel, "log.level"}, {flagLogFormat, "log.format"},
}

// configured reports whether anything says which links the command is about.
func configured(c *cli.Context) bool {
	o := configOptions(c)
	return o.File != "" || len(o.Flags.Given()) > 0
}

// configOptions gathers what the command line says about the configuration.
func configOptions(c *cli.Context) config.Options {
	o := config.Options{
		File: c.String(flagConfig),
		Link: c.String(flagLink),
		Flags: config.Flags{
			Source: c.StringSlice(flagSource), Target: c.StringSlice(flagTarget),
			Topics: c.StringSlice(flagTopic), Groups: c.StringSlice(flagGroup), Mode: c.String(flagMode),
		},
		LookupEnv: os.LookupEnv,
	}
	if o.File == "" && len(o.Flags.Given()) == 0 {
		o.File = os.Getenv(variableConfig)
	}
	for _, s := range settings {
		if c.IsSet(s.flag) {
			o.Flags.Settings = append(o.Flags.Settings, config.Setting{Origin: "--" + s.flag, Key: s.key, Value: c.String(s.flag)})
		}
	}
	return o
}
