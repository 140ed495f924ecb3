package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/config"
)

// OrdinaryOptions connect a client to a cluster as it is configured, with the
// client id given, and set nothing else: for producers, consumers and admin clients
// that are no part of a mirror.
func OrdinaryOptions(c config.Cluster, clientID string) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(clientID), kgo.Dialer(dialer{tls: c.TLS}.Dial), kgo.DisableClientMetrics()}
	if mech := mechanism(c.SASL); mech != nil {
		opts = append(opts, kgo.SASL(mech))
	}
	return opts
}
