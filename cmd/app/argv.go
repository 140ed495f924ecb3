package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"klink/cmd/spell"
)

// arrange checks a command line against the commands and puts it in the order
// that the cli library wants (A4): program, command, flags, "--", topics. By
// itself the library takes every flag after the first topic for a topic, and
// "promote orders --dry-run" would really promote.
func arrange(args []string, commands []*cli.Command) ([]string, error) {
	program, words := "klink", []string(nil)
	if len(args) > 0 {
		program, words = args[0], args[1:]
	}
	if len(words) == 0 {
		return nil, &UsageError{What: "name a command: " + strings.Join(commandNames(commands), ", ")}
	}
	switch words[0] {
	case "--help", "-h":
		return []string{program, "--help"}, nil
	case "--version", "-v":
		words = append([]string{"version"}, words[1:]...)
	case "help":
		if len(words) == 1 {
			return []string{program, "--help"}, nil
		}
		words = []string{words[1], "--help"}
	}
	command, err := findCommand(words[0], commands)
	if err != nil {
		return nil, err
	}
	flags, topics, err := split(words[1:], command)
	if err != nil {
		return nil, err
	}
	out := append([]string{program, command.Name}, flags...)
	if len(topics) > 0 {
		out = append(append(out, "--"), topics...)
	}
	return out, nil
}

func commandNames(commands []*cli.Command) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

func findCommand(word string, commands []*cli.Command) (*cli.Command, error) {
	if strings.HasPrefix(word, "-") {
		return nil, &UsageError{What: fmt.Sprintf("%s stands before the command; write klink COMMAND %s", word, word)}
	}
	for _, c := range commands {
		if c.HasName(word) {
			return c, nil
		}
	}
	names := commandNames(commands)
	return nil, &UsageError{What: fmt.Sprintf("unknown command %q%s; there are %s", word, spell.DidYouMean(word, names), strings.Join(names, ", "))}
}

// split tells the flags of a command from the topics.
func split(words []string, command *cli.Command) (flags, topics []string, err error) {
	fail := func(format string, a ...any) ([]string, []string, error) {
		return nil, nil, &UsageError{Command: command.Name, What: fmt.Sprintf(format, a...)}
	}
	known := flagTable(command)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			continue // what follows is looked at like the rest: no topic begins with -
		}
		if !strings.HasPrefix(word, "-") {
			topics = append(topics, word)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag, ok := known[name]
		_, isSwitch := flag.(*cli.BoolFlag)
		given := []string{word}
		switch {
		case !ok:
			return fail("unknown flag %s%s", flagName(name), suggestFlag(name, known))
		case isSwitch && !inline && i+1 < len(words) && (words[i+1] == "true" || words[i+1] == "false"):
			// The library would set the flag and take the word for a topic.
			return fail("write %s=%s", flagName(name), words[i+1])
		case isSwitch && !inline:
			flags = append(flags, word)
			continue
		case inline:
		case i+1 == len(words) || beginsFlag(words[i+1], flag):
			return fail("flag %s needs a value", flagName(name))
		default:
			i++
			value, given = words[i], append(given, words[i])
		}
		if what := valueProblem(flag, value); what != "" {
			return fail("%s: %s", flagName(name), what)
		}
		flags = append(flags, given...)
	}
	return flags, topics, nil
}

// beginsFlag tells whether a word behind a flag is the next flag and not its value.
func beginsFlag(word string, before cli.Flag) bool {
	if len(word) < 2 || !isNumber(before) {
		return strings.HasPrefix(word, "-")
	}
	return word[0] == '-' && (word[1] < '0' || word[1] > '9')
}

// flagTable finds a command's flags by each of their names.
func flagTable(command *cli.Command) map[string]cli.Flag {
	table := map[string]cli.Flag{}
	for _, f := range append([]cli.Flag{&cli.BoolFlag{Name: "help", Aliases: []string{"h"}}}, command.Flags...) {
		for _, name := range f.Names() {
			table[name] = f
		}
	}
	return table
}

func flagName(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func suggestFlag(name string, table map[string]cli.Flag) string {
	var long []string
	for known := range table {
		if len(known) > 1 {
			long = append(long, known)
		}
	}
	slices.Sort(long)
	if near, ok := spell.Nearest(name, long); ok {
		return " (did you mean --" + near + "?)"
	}
	return ""
}
