package httpd

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"time"

	"klink/cmd/show"
	"klink/linker/state"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"records": show.Records,
	"seconds": show.Seconds,
	"class":   class,
	"groups":  show.GroupRows,
}).Parse(pageText))

// class is how a state is coloured.
func class(s state.State) string {
	switch s {
	case state.Active:
		return "good"
	case state.CatchingUp, state.Pending, state.Paused, state.PendingStopped, state.Stopped, state.Removed:
		return "busy"
	default:
		return "bad"
	}
}

type pageData struct {
	Version string
	AsOf    string
	Ready   bool
	Reasons []string
	Links   []linkData
}

type linkData struct {
	state.Link
	Rows []show.Row
}

func servePage(w http.ResponseWriter, req *http.Request, r *reporter, version string) {
	data := pageData{Version: version}
	report, err := r.get(req.Context())
	if err != nil {
		data.Reasons = []string{err.Error()}
	} else {
		data.Reasons = blindSpots(report)
		data.AsOf = report.AsOf.UTC().Format(time.RFC3339)
		for _, l := range report.Links {
			data.Links = append(data.Links, linkData{Link: l, Rows: show.Rows(state.Report{Links: []state.Link{l}}, true)})
		}
	}
	data.Ready = len(data.Reasons) == 0
	var body bytes.Buffer
	if err := page.Execute(&body, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(body.Bytes())
}
