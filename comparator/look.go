package comparator

import (
	"context"
	"errors"
	"fmt"

	"klink/fetcher/batch"
)

// lookBytes is what a look at one record asks for; a larger batch comes whole.
const lookBytes = 64 << 10

// look reads one visible record again. It is nil where there is none any more.
func (l *log) look(ctx context.Context, offset int64) (*Shown, error) {
	a, err := l.fetch(ctx, offset, lookBytes)
	if err != nil {
		return nil, err
	}
	for _, p := range a.parts {
		if p.Hidden || offset < p.Base || offset >= p.Next {
			continue
		}
		for r, err := range batch.Records(p.Bytes, batch.Limits{}) {
			if err != nil {
				return nil, err
			}
			if r.Offset == offset {
				return show(r.Clone(), p), nil
			}
		}
	}
	return nil, nil
}

// explain reads the records of a finding again and says what is with them. That
// they cannot be read any more is no error: the finding stands.
func (p *pair) explain(ctx context.Context, f *Finding) {
	var err error
	read := func(l *log, offset int64) (s *Shown) {
		var failed error
		if s, failed = l.look(ctx, offset); failed != nil {
			err = errors.Join(err, failed)
		}
		return s
	}
	switch f.Kind {
	case Start, End:
		return
	case Missing:
		f.Source = read(p.src, f.Offset)
		f.Detail = p.missingCopy(*f)
	case Extra:
		f.Offset, _ = p.onTarget(f.Offset)
		f.Target = read(p.dst, f.Offset)
	default:
		f.Source = read(p.src, f.Offset)
		if at, ok := p.onTarget(f.Offset + f.ShiftedBy); ok {
			f.Target = read(p.dst, at)
		}
	}
	if f.Kind == Changed && f.Source != nil && f.Target != nil {
		f.Detail = contrast(f.Source.record, f.Target.record)
	}
	f.Detail = f.describe()
	if err != nil {
		f.Detail += fmt.Sprintf(" (it could not be read again: %v)", err)
	}
}
