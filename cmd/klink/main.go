// Command klink mirrors Kafka topics to another cluster so that every record
// keeps its offset. This package holds the process's ends: signals and the exit
// code.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"klink/cmd/app"
)

func main() {
	ctx, drain := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // both of an impatient pair are kept
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		drain()
		<-signals
		fmt.Fprintln(os.Stderr, "klink: stopped at once; nothing is lost")
		os.Exit(1)
	}()
	os.Exit(app.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
