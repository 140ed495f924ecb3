package reverse

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTurnDefinition(t *testing.T) {
	topics := []Renamed{{"m-orders", "orders"}, {"plain", "plain"}}
	for name, c := range map[string]struct{ text, want string }{
		"a link": {definition, `# Link east-back goes the other way than link east.
links:
  - name: east-back
    mode: mirror
    source: {brokers: ['b:1'], sasl: {mechanism: PLAIN, username: k, password_env: P}}
    target: {brokers: ['a:1'], tls: {enabled: true, ca_file: /ca.pem}}
    topics:
      include:
        - m-orders
        - plain
      rename:
        map:
          m-orders: orders
      replication_factor: 3
    groups: {include: ["*"]}
`},
		"a file": {`
limits: {fetch_memory: 8MiB}
x-common: &tls {enabled: true}
links:
  - {name: other}
  - &east
    name: east
    source: {brokers: ["a:1"], tls: *tls}
    target: {brokers: ["b:1"], tls: {<<: *tls, enabled: false, ca_file: /ca}}
    checkpoint: {source_alias: a, target_alias: b}
`, `# Link east-back goes the other way than link east.
limits: {fetch_memory: 8MiB}
x-common: {enabled: true}
links:
  - name: east-back
    source: {brokers: ["b:1"], tls: {enabled: false, ca_file: /ca}}
    target: {brokers: ["a:1"], tls: {enabled: true}}
    checkpoint:
      target_alias: a
      source_alias: b
    topics:
      include:
        - m-orders
        - plain
      rename:
        map:
          m-orders: orders
`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := TurnDefinition(c.text, "east", "east-back", topics)
			must(t, err)
			if diff := cmp.Diff(c.want, got.File); diff != "" {
				t.Error(diff)
			}
			// The way back has the first sides again.
			again, err := TurnDefinition(got.Link, "east-back", "east", []Renamed{{"orders", "m-orders"}, {"plain", "plain"}})
			must(t, err)
			twice, err := TurnDefinition(again.File, "east", "east-back", topics)
			must(t, err)
			if twice.Link != got.Link {
				t.Error(cmp.Diff(got.Link, twice.Link))
			}
		})
	}
}
