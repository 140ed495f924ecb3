package httpd

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"klink/cmd/show"
)

// Handler returns the service without its listener.
func Handler(o Options) http.Handler {
	r := &reporter{report: o.Report}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, req *http.Request) { servePage(w, req, r, o.Version) })
	mux.HandleFunc("/v1/status", func(w http.ResponseWriter, req *http.Request) { serveStatus(w, req, r) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, req *http.Request) { serveHealth(w, req, r, o.Alive) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, req *http.Request) { serveReady(w, req, r) })
	mux.Handle("/metrics", o.Metrics)
	return readOnly(mux)
}

// readOnly holds W1 and sets headers that keep browsers from guessing types
// and from loading anything.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func serveStatus(w http.ResponseWriter, req *http.Request, r *reporter) {
	report, err := r.get(req.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var body bytes.Buffer
	if err := show.JSON(&body, "status", show.Complete(report)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body.Bytes())
}

func serveHealth(w http.ResponseWriter, req *http.Request, r *reporter, alive func() error) {
	var reasons []string
	if _, err := r.get(req.Context()); err != nil {
		reasons = append(reasons, err.Error())
	}
	if alive != nil {
		if err := alive(); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	verdict(w, reasons)
}

func serveReady(w http.ResponseWriter, req *http.Request, r *reporter) {
	report, err := r.get(req.Context())
	if err != nil {
		verdict(w, []string{err.Error()})
		return
	}
	verdict(w, blindSpots(report))
}

func verdict(w http.ResponseWriter, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, strings.Join(reasons, "\n"))
		return
	}
	fmt.Fprintln(w, "ok")
}
