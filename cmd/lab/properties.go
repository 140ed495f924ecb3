package lab

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener names. Brokers speak to each other, and the lab speaks to them, on
// listeners of their own, so that a fault on a proxy meets clients only.
const (
	clientListener     = "CLIENT"
	internalListener   = "INTERNAL"
	controllerListener = "CONTROLLER"
)

// sessionTimeout, by whether there are several brokers, is in milliseconds.
var sessionTimeout = map[bool]string{false: "2000", true: "4000"}

// properties are those of one broker, before the caller's own.
func (b *Broker) properties() map[string]string {
	k := b.cluster
	replicas := strconv.Itoa(min(3, len(k.brokers)))
	inSync := strconv.Itoa(min(2, len(k.brokers)))
	p := map[string]string{
		"process.roles":              "broker,controller",
		"node.id":                    strconv.Itoa(int(b.id)),
		"controller.quorum.voters":   k.voters(),
		"controller.listener.names":  controllerListener,
		"inter.broker.listener.name": internalListener,
		"listeners": fmt.Sprintf("%s://%s,%s://%s,%s://%s", clientListener, localAddr(b.clientPort),
			internalListener, localAddr(b.internalPort), controllerListener, localAddr(b.controllerPort)),
		"advertised.listeners": fmt.Sprintf("%s://%s,%s://%s", clientListener, b.Addr(),
			internalListener, localAddr(b.internalPort)),
		"listener.security.protocol.map": fmt.Sprintf("%s:%s,%s:PLAINTEXT,%s:PLAINTEXT",
			clientListener, k.opts.Security, internalListener, controllerListener),
		"log.dirs": strings.Join(b.DataDirs(), ","),

		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            inSync,
		// Few partitions, so that a first consumer need not wait for fifty logs.
		"offsets.topic.num.partitions":                 "4",
		"transaction.state.log.num.partitions":         "4",
		"share.coordinator.state.topic.num.partitions": "4",
		"group.initial.rebalance.delay.ms":             "0",
		"auto.create.topics.enable":                    "false",
		// A killed broker is known to be gone, and may come back, after this time
		// instead of 9 s. A node alone loses nothing when it is late.
		"broker.session.timeout.ms":    sessionTimeout[len(k.brokers) > 1],
		"broker.heartbeat.interval.ms": "500",
		// The cleaner takes 128 MiB of heap otherwise.
		"log.cleaner.dedupe.buffer.size": "8388608",
		"num.network.threads":            "2",
		"num.io.threads":                 "4",
	}
	maps.Copy(p, k.securityProperties())
	maps.Copy(p, k.opts.Props)
	return p
}

// voters names every node's controller listener, as id@host:port.
func (k *Kafka) voters() string {
	var voters []string
	for _, b := range k.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", b.id, localAddr(b.controllerPort)))
	}
	return strings.Join(voters, ",")
}

// format prepares the broker's folder as Kafka's storage tool does: its identity
// and the first metadata snapshot.
func (b *Broker) format() error {
	if err := os.MkdirAll(b.DataDir(), 0o755); err != nil {
		return err
	}
	snapshot, err := os.ReadFile(b.cluster.dist.BootstrapCheckpoint())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.DataDir(), "bootstrap.checkpoint"), snapshot, 0o644); err != nil {
		return err
	}
	for _, dir := range b.DataDirs() {
		meta := map[string]string{
			"version":      "1",
			"node.id":      strconv.Itoa(int(b.id)),
			"cluster.id":   b.cluster.clusterID,
			"directory.id": randomID(),
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := writeProperties(filepath.Join(dir, "meta.properties"), meta); err != nil {
			return err
		}
	}
	return writeProperties(b.configPath(), b.properties())
}

// DataDir is the broker's first log folder: metadata, and a folder for each
// partition. While the broker is stopped, files may be planted there.
func (b *Broker) DataDir() string { return filepath.Join(b.dir, "data") }

// DataDirs are all log folders of the broker.
func (b *Broker) DataDirs() []string {
	dirs := []string{b.DataDir()}
	for i := 2; i <= b.cluster.opts.LogDirs; i++ {
		dirs = append(dirs, b.DataDir()+"-"+strconv.Itoa(i))
	}
	return dirs
}

func (b *Broker) configPath() string { return filepath.Join(b.dir, "server.properties") }

// writeProperties writes a Java properties file, keys in order.
func writeProperties(path string, p map[string]string) error {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&text, "%s=%s\n", key, strings.ReplaceAll(p[key], "\n", `\n`))
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}
