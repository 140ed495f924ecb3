package app

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"klink/cmd/show"
)

// version is set by the linker: -X klink/cmd/app.version=v1.2.3.
var version = "dev"

// Version returns klink's version, "dev" where it was built without one.
func Version() string { return version }

type versionResult struct {
	Version string `json:"version"`
	// Commit is null where the build does not tell.
	Commit   *string `json:"commit"`
	Go       string  `json:"go"`
	Platform string  `json:"platform"`
}

func (s *shell) versionCommand() *cli.Command {
	return &cli.Command{
		Name:      "version",
		Usage:     "print the version",
		UsageText: "klink version [-o table|json]",
		Flags:     []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			asJSON, err := wantsJSON(c)
			if err != nil {
				return err
			}
			if err := noTopics(c); err != nil {
				return err
			}
			v := versionResult{Version: Version(), Commit: commit(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if asJSON {
				return show.JSON(s.out, "version", v)
			}
			_, err = fmt.Fprintf(s.out, "klink %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
}

func commit() *string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return &s.Value
		}
	}
	return nil
}
