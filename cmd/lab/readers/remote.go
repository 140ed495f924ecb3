package readers

import (
	"bufio"
	"context"
	_ "embed" // for the program
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"klink/cmd/lab/install"
)

//go:embed Remote.java
var javaRemote []byte

// RemoteJob is what MirrorMaker 2's own client, RemoteClusterUtils and
// MirrorClient of Kafka's connect-mirror-client, is to be asked of one cluster.
type RemoteJob struct {
	Version   string // of Kafka, as in Maven; "" is install.Newest
	Bootstrap []string
	// Settings are added to the client's, as replication.policy.separator.
	Settings map[string]string
	// Sources are asked for their remote topics and their distance.
	Sources []string
	// Groups are translated, per source alias. The checkpoints topic of that alias
	// must be there: the client waits for a minute for one that is not.
	Groups map[string][]string
}

// Translated is where a group goes on in one partition of the cluster.
type Translated struct {
	Topic     string
	Partition int32
	Offset    int64
	Metadata  string
}

// RemoteAnswers are the client's, in the order of names.
type RemoteAnswers struct {
	Upstream         []string // upstreamClusters
	CheckpointTopics []string
	HeartbeatTopics  []string
	Hops             map[string]int      // replicationHops per source; -1: not reached
	Topics           map[string][]string // MirrorClient.remoteTopics per source
	// Offsets are what translateOffsets gives per source and group; the client
	// gives no error where it ran out of time, but fewer of them.
	Offsets map[string]map[string][]Translated
}

// translateMillis is the deadline of one translation, and of one poll in it: the
// client returns as soon as it stands at the topic's end.
const translateMillis = "30000"

// Remote asks MirrorMaker 2's client. A question that it answers by an exception
// fails all, and the error shows the client's log.
func Remote(ctx context.Context, job RemoteJob) (RemoteAnswers, error) {
	version := job.Version
	if version == "" {
		version = install.Newest
	}
	kafka, err := install.Kafka(ctx, version)
	if err != nil {
		return RemoteAnswers{}, err
	}
	program, err := kafka.Program(ctx, "Remote", javaRemote)
	if err != nil {
		return RemoteAnswers{}, err
	}
	var answers RemoteAnswers
	command := func(output string) *exec.Cmd { return program.Command(ctx, job.args(output)...) }
	err = runProgram(ctx, command, func(path string) error {
		answers, err = readAnswers(path)
		return err
	})
	return answers, err
}

func (j RemoteJob) args(output string) []string {
	args := []string{output, "set", "bootstrap.servers", strings.Join(j.Bootstrap, ",")}
	for _, key := range slices.Sorted(maps.Keys(j.Settings)) {
		args = append(args, "set", key, j.Settings[key])
	}
	args = append(args, "upstream", "checkpoints", "heartbeats")
	for _, alias := range j.Sources {
		args = append(args, "hops", alias, "topics", alias)
	}
	for _, alias := range slices.Sorted(maps.Keys(j.Groups)) {
		for _, group := range j.Groups[alias] {
			args = append(args, "translate", alias, group, translateMillis)
		}
	}
	return args
}

func readAnswers(path string) (RemoteAnswers, error) {
	a := RemoteAnswers{Hops: map[string]int{}, Topics: map[string][]string{}, Offsets: map[string]map[string][]Translated{}}
	f, err := os.Open(path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	last := ""
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if last = scanner.Text(); last == endLine {
			continue
		}
		if err := a.add(last); err != nil {
			return a, fmt.Errorf("%q is no answer of the client: %w", last, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return a, err
	}
	if last != endLine {
		return a, fmt.Errorf("the client's output ends in %q and not in %s", last, endLine)
	}
	a.sort()
	return a, nil
}

// answerFields are how many a line has, by its first.
var answerFields = map[string]int{"upstream": 2, "checkpoints": 2, "heartbeats": 2, "hops": 3, "topics": 3, "translate": 7}

// add takes one line in.
func (a *RemoteAnswers) add(line string) error {
	fields := strings.Split(line, " ")
	if len(fields) != answerFields[fields[0]] {
		return fmt.Errorf("%d fields", len(fields))
	}
	for i, field := range fields {
		var err error
		if fields[i], err = url.QueryUnescape(field); err != nil {
			return err
		}
	}
	var err error
	switch fields[0] {
	case "upstream":
		a.Upstream = append(a.Upstream, fields[1])
	case "checkpoints":
		a.CheckpointTopics = append(a.CheckpointTopics, fields[1])
	case "heartbeats":
		a.HeartbeatTopics = append(a.HeartbeatTopics, fields[1])
	case "hops":
		a.Hops[fields[1]], err = strconv.Atoi(fields[2])
	case "topics":
		a.Topics[fields[1]] = append(a.Topics[fields[1]], fields[2])
	case "translate":
		err = a.addOffset(fields)
	}
	return err
}

// addOffset takes a line translate ALIAS GROUP TOPIC PARTITION OFFSET METADATA in.
func (a *RemoteAnswers) addOffset(fields []string) error {
	partition, err := strconv.ParseInt(fields[4], 10, 32)
	if err != nil {
		return err
	}
	offset, err := strconv.ParseInt(fields[5], 10, 64)
	if err != nil {
		return err
	}
	groups := a.Offsets[fields[1]]
	if groups == nil {
		groups = map[string][]Translated{}
		a.Offsets[fields[1]] = groups
	}
	groups[fields[2]] = append(groups[fields[2]], Translated{Topic: fields[3], Partition: int32(partition), Offset: offset, Metadata: fields[6]})
	return nil
}

func (a *RemoteAnswers) sort() {
	slices.Sort(a.Upstream)
	slices.Sort(a.CheckpointTopics)
	slices.Sort(a.HeartbeatTopics)
	for _, topics := range a.Topics {
		slices.Sort(topics)
	}
	for _, groups := range a.Offsets {
		for _, offsets := range groups {
			slices.SortFunc(offsets, func(x, y Translated) int {
				if x.Topic != y.Topic {
					return strings.Compare(x.Topic, y.Topic)
				}
				return int(x.Partition) - int(y.Partition)
			})
		}
	}
}
