package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// command is the measuring program, or the bare loop in a process of its own.
func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == loopCommand {
		return runLoop(ctx, args[1:])
	}
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	err = b.run(ctx)
	return errors.Join(err, b.report(os.Stdout), b.close())
}
