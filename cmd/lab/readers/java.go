package readers

import (
	"context"
	_ "embed" // for the programs
	"os/exec"

	"klink/cmd/lab/install"
)

//go:embed Reader.java
var javaSource []byte

// Java reads with Kafka's own consumer, of the version that install.Newest
// names. Checksums are verified.
func Java(ctx context.Context, job Job, each func(Line) error) error {
	kafka, err := install.Kafka(ctx, install.Newest)
	if err != nil {
		return err
	}
	program, err := kafka.Program(ctx, "Reader", javaSource)
	if err != nil {
		return err
	}
	return run(ctx, job, func(args []string) *exec.Cmd { return program.Command(ctx, args...) }, each)
}
