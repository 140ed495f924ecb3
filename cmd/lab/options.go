package lab

import (
	"fmt"

	"klink/cmd/lab/install"
)

// Security is how clients log in to a real cluster.
type Security int

const (
	// Plaintext is neither encrypted nor authenticated, and nothing is forbidden.
	Plaintext Security = iota
	// SASLSSL is TLS with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and (unsigned)
	// OAUTHBEARER, and Kafka's StandardAuthorizer: who has no ACL may do nothing.
	SASLSSL
	// MutualTLS is TLS with client certificates, whose common name is the
	// principal, and the same authorizer.
	MutualTLS
)

func (s Security) String() string {
	return [...]string{"PLAINTEXT", "SASL_SSL", "SSL"}[s]
}

// AdminUser is the super user of a secured cluster.
const AdminUser = "admin"

// KafkaOptions describe a real cluster; the zero value is one broker of the
// newest version, open to everybody.
type KafkaOptions struct {
	Version  string            // as in Maven; "" is install.Newest
	Brokers  int               // 1 or 3, each also a controller; 0 is 1
	HeapMiB  int               // largest Java heap per broker; 0 is 512
	Props    map[string]string // server properties of every broker, over the lab's own
	Security Security
	Users    []string // ordinary principals that can log in; each gets a password of its own
	LogDirs  int      // log folders per broker; 0 is 1. The first holds the metadata too
	Proxy    bool     // clients are told the addresses of fault proxies, one per broker
	// Throughput takes the settings of a broker in production (both compilers,
	// G1) instead of those for a quick start with little processor time.
	Throughput bool
}

// withDefaults checks and completes the options.
func (o KafkaOptions) withDefaults() (KafkaOptions, error) {
	if o.Version == "" {
		o.Version = install.Newest
	}
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.HeapMiB == 0 {
		o.HeapMiB = 512
	}
	if o.LogDirs == 0 {
		o.LogDirs = 1
	}
	if o.Brokers != 1 && o.Brokers != 3 {
		return o, fmt.Errorf("%d brokers: a lab cluster has 1 or 3", o.Brokers)
	}
	if o.Security < Plaintext || o.Security > MutualTLS {
		return o, fmt.Errorf("unknown security %d", int(o.Security))
	}
	if len(o.Users) > 0 && o.Security == Plaintext {
		return o, fmt.Errorf("users on a cluster without security")
	}
	return o, nil
}

// jvm are the flags of the Java launcher. For tests a broker's start and its
// processor time count more than its peak; see the measurements in package
// install.
func (o KafkaOptions) jvm() []string {
	heap := fmt.Sprintf("-Xmx%dm", o.HeapMiB)
	if o.Throughput {
		return []string{heap, fmt.Sprintf("-Xms%dm", o.HeapMiB), "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"}
	}
	return []string{heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}
