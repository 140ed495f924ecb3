package reverse

import (
	"fmt"
	"strings"
)

// Request is what is to be turned around.
type Request struct {
	// Link is the old link's name.
	Link string
	// Next names the new link; "" is NextName of the old one.
	Next string
	// Topics are source topics of the old link; none means all of its topics.
	Topics []string
	// Definition is the old link as YAML: its mapping, or a whole file with it in
	// links. "" is what is on record of it.
	Definition string
	// Recreate lets topics that cannot go on in place be deleted on the old source,
	// and mirrored anew. What only they hold is lost.
	Recreate bool
	// Write is the file that the new link's definition goes to; "" is none. One that
	// is there and says something else is never written over.
	Write string
}

// back is what tells a link from the one that goes the other way.
const back = "-back"

// NextName is the name of the link that goes the other way: the pair of names
// alternates, so that the way home of a way home has the first name again.
func NextName(link string) string {
	if was, ok := strings.CutSuffix(link, back); ok && was != "" {
		return was
	}
	return link + back
}

func (r *Request) setDefaults() {
	if r.Next == "" {
		r.Next = NextName(r.Link)
	}
}

func (r Request) validate() error {
	switch {
	case r.Link == "":
		return fmt.Errorf("%w: no link is named", ErrRequest)
	case r.Next == r.Link:
		return fmt.Errorf("%w: the new link needs another name than %q", ErrRequest, r.Link)
	}
	for _, c := range r.Next {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%w: the new link's name %q has %q in it; allowed are a-z, 0-9 and '-'", ErrRequest, r.Next, c)
		}
	}
	return nil
}
