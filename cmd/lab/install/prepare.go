package install

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"klink/cmd/lab/process"
)

// quick are the launcher flags for short runs: one collector thread and no
// second compiler, which took a broker's start from 2.2 s to 1.5 s (1.9 instead
// of 3.6 s of processor time) on two idle cores; a class archive takes it to 0.8 s.
var quick = []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// trainingClusterID is any valid one: the broker that writes the class archive
// lives for seconds.
const trainingClusterID = "a2xpbmstbGFiLXRyYWluZw"

// writeBootstrap runs Kafka's storage tool once to get this version's first
// metadata snapshot.
func (d *Distribution) writeBootstrap(ctx context.Context) error {
	if err := d.writeLogConfig(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "klink-format-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	props, err := writeTrainingConfig(dir, 19092, 19093)
	if err != nil {
		return err
	}
	if err := d.format(ctx, props); err != nil {
		return err
	}
	src, err := os.Open(filepath.Join(dir, "data", "bootstrap.checkpoint"))
	if err != nil {
		return fmt.Errorf("format a folder with Kafka %s: %w", d.Version, err)
	}
	defer src.Close()
	dst, err := os.Create(d.BootstrapCheckpoint())
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	return err
}

func (d *Distribution) format(ctx context.Context, props string) error {
	cmd := d.Command(ctx, quick, "kafka.tools.StorageTool", "format", "-t", trainingClusterID, "-c", props)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("format a folder with Kafka %s: %w: %s", d.Version, err, out)
	}
	return nil
}

// writeArchive runs a broker from start to a clean stop and lets Java write
// down the classes it loaded. A Java that cannot do that leaves an empty file,
// which later runs pass over: the archive only makes starts quicker.
func (d *Distribution) writeArchive(ctx context.Context) error {
	dir, err := os.MkdirTemp(d.Dir, ".archive-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	staged := filepath.Join(dir, "classes.jsa")
	if err := d.train(ctx, dir, staged); err != nil {
		return fmt.Errorf("first start of Kafka %s: %w", d.Version, err)
	}
	f, err := os.OpenFile(staged, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(staged, d.archive())
}

func (d *Distribution) train(ctx context.Context, dir, archive string) error {
	ports, err := twoFreePorts()
	if err != nil {
		return err
	}
	props, err := writeTrainingConfig(dir, ports[0], ports[1])
	if err != nil {
		return err
	}
	if err := d.format(ctx, props); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := d.Command(ctx, append([]string{"-XX:ArchiveClassesAtExit=" + archive}, quick...), "kafka.Kafka", props)
	log, err := os.Create(filepath.Join(dir, "broker.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	broker, err := process.Start(cmd)
	if err != nil {
		return err
	}
	defer broker.Kill() //nolint:errcheck // it ends with us at the latest
	if err := awaitAnswer(ctx, fmt.Sprintf("127.0.0.1:%d", ports[0]), broker); err != nil {
		return fmt.Errorf("%w: %s", err, tail(log.Name(), 2000))
	}
	// Java writes the archive when it ends by itself.
	if err := broker.Terminate(); err != nil {
		return err
	}
	select {
	case <-broker.Done(): // the exit code after a signal says nothing of use
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitAnswer returns when the broker at addr answers ApiVersions, or when its
// process has ended or ctx has.
func awaitAnswer(ctx context.Context, addr string, broker *process.Process) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for client.Ping(ctx) != nil {
		select {
		case <-broker.Done():
			return fmt.Errorf("the broker ended before it answered: %w", broker.Err())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func writeTrainingConfig(dir string, port, controller int) (string, error) {
	path := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
log.cleaner.dedupe.buffer.size=4194304
`, port, controller, filepath.Join(dir, "data"))
	return path, os.WriteFile(path, []byte(text), 0o644)
}

func twoFreePorts() ([2]int, error) {
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// tail is the end of a file for an error text; what cannot be read is left out.
func tail(path string, maxBytes int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if len(b) > maxBytes {
		b = b[len(b)-maxBytes:]
	}
	return string(b)
}
