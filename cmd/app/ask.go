package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"klink/cmd/show"
	"klink/linker/state"
)

const (
	askTimeout = 5 * time.Second
	// maxReportBytes bounds an answer; a partition takes about 500 bytes.
	maxReportBytes = 256 << 20
)

// askDaemon reads the report of the klink that listens at listen.
func askDaemon(ctx context.Context, listen string) (state.Report, error) {
	if listen == "" {
		return state.Report{}, errors.New("http.listen is off")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(listen)+"/v1/status", nil)
	if err != nil {
		return state.Report{}, fmt.Errorf("ask %s: it is no address of the form host:port", listen)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return state.Report{}, fmt.Errorf("ask %s: %w", listen, withoutURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReportBytes))
	if err != nil {
		return state.Report{}, fmt.Errorf("read the answer of %s: %w", listen, err)
	}
	if resp.StatusCode != http.StatusOK {
		return state.Report{}, fmt.Errorf("ask %s: it answers %s: %s", listen, resp.Status, firstLine(body))
	}
	var answer struct {
		Command string `json:"_command"`
		Version int    `json:"_version"`
		state.Report
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Command != "status" || answer.Version != show.Version {
		return state.Report{}, fmt.Errorf("ask %s: what answers there is not this version of klink", listen)
	}
	return answer.Report, nil
}

// dialable turns an address to listen on into one to call.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// withoutURL drops what the caller says already.
func withoutURL(err error) error {
	var ue *url.Error
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(string(body[:min(len(body), 500)]), "\n")
	return line
}
