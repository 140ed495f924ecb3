package batch

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
)

type gzipReader struct {
	src bytes.Reader
	z   gzip.Reader
}

var gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}

func readGzip(dst, src []byte, maxBytes int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer func() {
		r.src.Reset(nil)
		gzipReaders.Put(r)
	}()
	r.src.Reset(src)
	if err := r.z.Reset(&r.src); err != nil {
		return dst, malformed("gzip: %w", err)
	}
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(len(dst), 4*len(src), 512), maxBytes+1-len(dst)))
		}
		room := min(cap(dst), maxBytes+1) // one more, to see that it is too much
		n, err := r.z.Read(dst[len(dst):room])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > maxBytes:
			return dst, ErrLimit
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, malformed("gzip: %w", err)
		}
	}
}

type gzipWriter struct {
	out appender
	z   *gzip.Writer
}

// appender is an io.Writer onto a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

var gzipWriters = sync.Pool{New: func() any { return &gzipWriter{z: gzip.NewWriter(nil)} }}

func appendGzip(dst, src []byte) ([]byte, error) {
	w := gzipWriters.Get().(*gzipWriter)
	defer func() {
		w.out.b = nil
		gzipWriters.Put(w)
	}()
	w.out.b = dst
	w.z.Reset(&w.out)
	if _, err := w.z.Write(src); err != nil {
		return dst, err
	}
	if err := w.z.Close(); err != nil {
		return dst, err
	}
	return w.out.b, nil
}
