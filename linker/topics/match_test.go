package topics

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"audit.events", "audit.events", true},
		{"audit.events", "audit-events", false}, // C113: a name is no regular expression
		{"a+b(c)", "a+b(c)", true},
		{"a+b(c)", "aab(c)", false},
		{"orders", "orders-old", false},
		{"Orders", "orders", false},
		{"*", "", true},
		{"*", "anything at all\nwith lines", true},
		{"payments.*", "payments.", true},
		{"payments.*", "payments.eu.de", true},
		{"payments.*", "paymentsXeu", false},
		{"*.eu.*", "a.eu.b", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"/audit-[0-9]+/", "audit-12", true},
		{"/audit-[0-9]+/", "audit-12-old", false},
		{"/a|b/", "ab", false},
		{"/a|b/", "b", true},
		{"/.*/", "x\ny", true},
		{"/(?i)orders/", "ORDERS", true},
		{"=a*", "a*", true},
		{"=a*", "ab", false},
		{"=/x/", "/x/", true},
		{"==", "=", true},
		{"größe #1:@/ü", "größe #1:@/ü", true}, // C023
		{"a%2Fb", "a/b", false},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if got := p.Match(c.name); got != c.want {
			t.Errorf("%q selects %q: %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
	for _, bad := range []string{"", "=", "/", "//", "/abc", "/(/"} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What is wrong with a pattern is told of what was written, and not of what it is
// wrapped in.
func TestBadExpressionIsQuotedAsWritten(t *testing.T) {
	for bad, want := range map[string]string{
		"/[/":   "missing closing ]: `[`",
		"/a(/":  "missing closing ): `a(`",
		"/a\\/": "trailing backslash at end of expression: ``",
		"/a)b/": "unexpected ): `a)b`",
	} {
		if _, err := ParsePattern(bad); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for name, c := range map[string]struct {
		rules    Rules
		topic    string
		internal bool
		want     Skip
	}{
		"included":                        {Rules{Include: []string{"*"}}, "orders", false, ""},
		"nothing included":                {Rules{}, "orders", false, NotIncluded},
		"other name":                      {Rules{Include: []string{"payments"}}, "orders", false, NotIncluded},
		"excluded":                        {Rules{Include: []string{"*"}, Exclude: []string{"orders"}}, "orders", false, Excluded},
		"exclude beats the exact name":    {Rules{Include: []string{"orders"}, Exclude: []string{"o*"}}, "orders", false, Excluded},
		"brokers' own":                    {Rules{Include: []string{"__consumer_offsets"}}, "__consumer_offsets", true, BrokersOwn},
		"brokers' own, not marked so":     {Rules{Include: []string{"__share_group_state"}}, "__share_group_state", false, BrokersOwn},
		"marked by the cluster":           {Rules{Include: []string{"_schemas_of_broker"}}, "_schemas_of_broker", true, BrokersOwn},
		"klink's own":                     {Rules{Include: []string{"=__klink"}}, "__klink", false, KlinksOwn},
		"klink's own map":                 {Rules{Include: []string{"__*"}}, "__klink_map", false, KlinksOwn},
		"one underscore is no mark":       {Rules{Include: []string{"*"}}, "_schemas", false, ""},
		"underscores, star":               {Rules{Include: []string{"*"}}, "__app_state", false, LooksInternal},
		"underscores, exact":              {Rules{Include: []string{"__app_state"}}, "__app_state", false, ""},
		"underscores, =":                  {Rules{Include: []string{"=__app_state"}}, "__app_state", false, ""},
		"underscores, glob names them":    {Rules{Include: []string{"*", "__app*"}}, "__app_state", false, ""},
		"underscores, regexp names them":  {Rules{Include: []string{"/__app.*/"}}, "__app_state", false, ""},
		"underscores, glob ends internal": {Rules{Include: []string{"*internal"}}, "__x.internal", false, LooksInternal},
		".internal, star":                 {Rules{Include: []string{"*"}}, "orders.internal", false, LooksInternal},
		".internal, begins alike":         {Rules{Include: []string{"orders*"}}, "orders.internal", false, LooksInternal},
		".internal, glob names it":        {Rules{Include: []string{"*.internal"}}, "orders.internal", false, ""},
		"-internal, regexp names it":      {Rules{Include: []string{"/.*[.-]internal/"}}, "orders-internal", false, ""},
		"-internal, star":                 {Rules{Include: []string{"*"}}, "orders-internal", false, LooksInternal},
		"streams changelog":               {Rules{Include: []string{"*"}}, "app-store-changelog", false, ""},
		"mm2 things":                      {Rules{Include: []string{"*"}}, "mm2-things", false, ""},
		"named, and excluded":             {Rules{Include: []string{"__app"}, Exclude: []string{"__*"}}, "__app", false, Excluded},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := NewMatcher(c.rules)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Match(c.topic, c.internal); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnmatchedAndNames(t *testing.T) {
	m, err := NewMatcher(Rules{Include: []string{"orders", "=orders", "pay*", "/x/", "none"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"orders", "none"}, m.Names()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/x/", "none"}, m.Unmatched([]string{"orders", "payments"})); d != "" {
		t.Error(d)
	}
}

func TestRename(t *testing.T) {
	m, err := NewMatcher(Rules{Rename: Rename{Prefix: "dr.", Suffix: "-v1", Map: map[string]string{"orders": "bestellungen"}}})
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"orders": "bestellungen", "payments": "dr.payments-v1"} {
		if got := m.Target(from); got != want {
			t.Errorf("%q becomes %q, want %q", from, got, want)
		}
	}
}

func TestRulesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		rules Rules
		field string
	}{
		"include":         {Rules{Include: []string{"a", "/(/"}}, "include[1]"},
		"exclude":         {Rules{Exclude: []string{""}}, "exclude[0]"},
		"prefix":          {Rules{Rename: Rename{Prefix: "a/"}}, "rename.prefix"},
		"suffix":          {Rules{Rename: Rename{Suffix: " "}}, "rename.suffix"},
		"map to nothing":  {Rules{Rename: Rename{Map: map[string]string{"a": ""}}}, "rename.map[a]"},
		"map to ours":     {Rules{Rename: Rename{Map: map[string]string{"a": "__klink"}}}, "rename.map[a]"},
		"map to brokers'": {Rules{Rename: Rename{Map: map[string]string{"a": "__consumer_offsets"}}}, "rename.map[a]"},
		"map to dots":     {Rules{Rename: Rename{Map: map[string]string{"a": ".."}}}, "rename.map[a]"},
		"map too long":    {Rules{Rename: Rename{Map: map[string]string{"a": strings.Repeat("x", 250)}}}, "rename.map[a]"},
		"two to one":      {Rules{Rename: Rename{Map: map[string]string{"a": "x", "b": "x"}}}, "rename.map[b]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewMatcher(c.rules)
			var re *RuleError
			if !errors.As(err, &re) || re.Field != c.field {
				t.Errorf("got %v", err)
			}
		})
	}
}

// For any pattern and name: no panic; a pattern that parses prints as written;
// an exact one selects its own name only; a glob agrees with a dumb matcher; the
// reserved topics are never selected.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"orders", "pay*", "/a.c/", "=x", "__*", "*internal", "/(?s).*/", "*\xff"} {
		f.Add(s, "orders")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		got := p.Match(name)
		if p.String() != pattern {
			t.Errorf("%q prints as %q", pattern, p)
		}
		if n, exact := p.Name(); exact {
			if got != (n == name) || !p.Match(n) {
				t.Errorf("exact %q, name %q: %v", pattern, name, got)
			}
		} else if pattern[0] != '/' && strings.Count(pattern, "*") < 5 && len(name) < 100 {
			if want := dumbGlob(pattern, name); got != want {
				t.Errorf("glob %q, name %q: %v, want %v", pattern, name, got, want)
			}
		}
		m := &Matcher{include: []Pattern{p}}
		for _, own := range append([]string{"__klink", "__klink_map"}, brokersOwn...) {
			if m.Match(own, false) == "" {
				t.Errorf("%q selects %s", pattern, own)
			}
		}
	})
}

func dumbGlob(glob, name string) bool {
	if glob == "" {
		return name == ""
	}
	if glob[0] != '*' {
		return name != "" && name[0] == glob[0] && dumbGlob(glob[1:], name[1:])
	}
	for i := 0; i <= len(name); i++ {
		if dumbGlob(glob[1:], name[i:]) {
			return true
		}
	}
	return false
}
