package reverse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// fileMode: it names secrets' files and holds none.
const fileMode = 0o644

// CheckFile tells whether WriteFile would write: the file is not there, its folder
// takes one of its length, or it says the same already. The error is ErrFile.
func CheckFile(path, text string) error {
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return tryFolder(filepath.Dir(path), text)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFile, err)
	case string(have) != text:
		return fmt.Errorf("%w: %s is there and says something else; it is left as it is: name another file", ErrFile, path)
	}
	return nil
}

// tryFolder writes a text into a folder and takes it away again: whether there is
// room, and whether one may, nothing else tells for certain.
func tryFolder(folder, text string) error {
	f, err := os.CreateTemp(folder, ".klink-*")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	return nil
}

// WriteFile writes the new link's definition and never over another file: not even
// one that appears just now. One that says the same already is left alone. What it
// began and could not finish it takes away. The error is ErrFile.
func WriteFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return CheckFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%w: %w", ErrFile, errors.Join(err, os.Remove(path)))
	}
	return nil
}
