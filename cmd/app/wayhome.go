package app

import (
	"context"
	"fmt"

	"klink/linker"
	"klink/linker/reverse"
	"klink/linker/switchover"
)

// Promote also warns of rights on the source that the way home would miss: once it
// is needed the source may be another team's again. In checkpoint mode there is none.
func (w *switcher) Promote(ctx context.Context, r switchover.Request) (switchover.Result, error) {
	res, err := w.Switch.Promote(ctx, r)
	if l, _ := w.view.Link(w.name); w.src == nil || len(res.Topics) == 0 || l.Mode == linker.Checkpoint.String() {
		return res, err
	}
	names := make([]string, 0, len(res.Topics))
	for _, t := range res.Topics {
		names = append(names, t.SourceTopic)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if n, asked := reverse.Rights(ctx, w.src.Admin, names); asked == nil { // else the source is away: no matter of rights
		res.Warnings = append(res.Warnings, wayHomeWarnings(n)...)
	}
	return res, err
}

// wayHomeWarnings says once what is missing, and that markers may be. Other rights
// that are not told will show when they are missed; without markers the way home is
// barred at the first gap.
func wayHomeWarnings(n reverse.Needed) []switchover.Warning {
	const detail = "needed on the source once klink reverse makes it the target"
	const hint = "grant it to klink's principal there before the way home is needed"
	switch {
	case len(n.Missing) > 1:
		return []switchover.Warning{{Right: "source: " + n.Missing[0], Known: true, Hint: hint,
			Detail: fmt.Sprintf("%s, and so are %d other rights, such as %s", detail, len(n.Missing)-1, n.Missing[1])}}
	case len(n.Missing) == 1:
		return []switchover.Warning{{Right: "source: " + n.Missing[0], Known: true, Detail: detail, Hint: hint}}
	case n.Markers == reverse.Unknown:
		return []switchover.Warning{{Right: "source: Alter (or ClusterAction) on cluster", Detail: detail + "; the source does not tell whether it is there",
			Hint: "grant klink's principal Describe on the cluster there, to be told"}}
	}
	return nil
}
