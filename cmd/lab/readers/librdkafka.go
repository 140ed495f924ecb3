package readers

import (
	"context"
	_ "embed" // for the programs
	"os/exec"

	"klink/cmd/lab/install"
)

//go:embed reader.py
var pythonSource string

// Librdkafka reads with the C client that most languages but Java and Go build
// on. Checksums are verified.
func Librdkafka(ctx context.Context, job Job, each func(Line) error) error {
	python, err := install.Python(ctx, install.Librdkafka)
	if err != nil {
		return err
	}
	return run(ctx, job, func(args []string) *exec.Cmd {
		return exec.CommandContext(ctx, python, append([]string{"-c", pythonSource}, args...)...)
	}, each)
}
