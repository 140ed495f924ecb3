// Package httpd serves what klink knows about itself, read-only:
//
//	/           status page for people
//	/v1/status  the report, in the JSON of klink status
//	/metrics    Prometheus
//	/healthz    200 while the process works, 503 when a loop is stuck
//	/readyz     200 once every link has looked at both clusters and can see them,
//	            else 503 with the reasons
//
// Invariants:
//
//	W1  Only GET and HEAD are answered; nothing changes by a request.
//	W2  /readyz is never green while klink is blind: without a report, with a
//	    link that has not read its state, with a cluster or partition it cannot
//	    reach, or with numbers that are no longer renewed.
//	W3  A report that does not come in time costs one waiting goroutine in all,
//	    however many requests ask for it.
package httpd
