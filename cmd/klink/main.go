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

// endings are the signals that ask klink to end. The end of its terminal, or of the
// session with the machine, is one of them, but not where nohup had it ignored: to
// take notice of a signal puts it into force again.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

func main() {
	ctx, drain := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) // both of an impatient pair are kept
	signal.Notify(signals, endings()...)
	go func() {
		<-signals
		drain()
		<-signals
		fmt.Fprintln(os.Stderr, "klink: stopped at once; nothing is lost")
		os.Exit(1)
	}()
	os.Exit(app.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}
