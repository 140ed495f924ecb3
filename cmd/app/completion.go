package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

func (s *shell) completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes klink's commands and flags in a shell",
		UsageText: "klink completion bash|zsh|fish",
		Description: "bash: source <(klink completion bash)\n" +
			"zsh:  source <(klink completion zsh)\n" +
			"fish: klink completion fish | source",
		Action: func(c *cli.Context) error {
			script, err := s.completion(c.App, c.Args().Slice())
			if err != nil {
				return err
			}
			_, err = io.WriteString(s.out, script)
			return err
		},
	}
}

func (s *shell) completion(app *cli.App, args []string) (string, error) {
	if len(args) == 1 {
		switch args[0] {
		case "bash":
			return bashScript(app), nil
		case "zsh":
			return "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" + bashScript(app), nil
		case "fish":
			return app.ToFishCompletion()
		}
	}
	return "", &UsageError{Command: "completion", What: "name one shell: bash, zsh or fish"}
}

// bashScript completes commands, flags, files after -c and the values that are
// fixed.
func bashScript(app *cli.App) string {
	var cases strings.Builder
	for _, c := range app.Commands {
		var flags []string
		for _, f := range c.Flags {
			for _, name := range f.Names() {
				if name != "help" && name != "h" {
					flags = append(flags, flagName(name))
				}
			}
		}
		fmt.Fprintf(&cases, "    %s) words=\"%s\" ;;\n", c.Name, strings.Join(append(flags, "--help"), " "))
	}
	return `_klink() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" words=""
  case "$prev" in
    -c|--config) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    -o|--output) COMPREPLY=($(compgen -W "table json" -- "$cur")); return ;;
    --log-level) COMPREPLY=($(compgen -W "debug info warn error" -- "$cur")); return ;;
    --log-format) COMPREPLY=($(compgen -W "text json" -- "$cur")); return ;;
    --mode) COMPREPLY=($(compgen -W "mirror checkpoint" -- "$cur")); return ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$cur")); return ;;
  esac
  case "${COMP_WORDS[1]}" in
` + cases.String() + `    *) words="` + strings.Join(commandNames(app.Commands), " ") + ` help" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _klink klink
`
}
