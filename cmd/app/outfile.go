package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"klink/cmd/show"
)

// tryFolder finds out whether a file may be made in a folder, by making one and
// taking it away again: nothing else tells for certain.
func tryFolder(folder string) error {
	f, err := os.CreateTemp(folder, ".klink-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// openReport makes the folder for a report where there is none. What takes hours is
// not to end with a folder that cannot be written.
func openReport(command, folder string) error {
	if folder == "" {
		return nil
	}
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		err = tryFolder(folder)
	}
	if err != nil {
		return &UsageError{Command: command, What: fmt.Sprintf("--%s: %v", flagReport, err)}
	}
	return nil
}

// writeReport writes a result for a person and for a program: COMMAND.json and
// COMMAND.html in a folder.
func writeReport(folder, command string, result any, page func(io.Writer) error) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the report's folder: %w", err)
	}
	return errors.Join(
		replaceFile(filepath.Join(folder, command+".json"), func(w io.Writer) error { return show.JSON(w, command, result) }),
		replaceFile(filepath.Join(folder, command+".html"), page))
}

// replaceFile writes a file as a whole, or leaves what is there: a full disk is not to
// take the last good one along.
func replaceFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
