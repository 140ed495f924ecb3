package app

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"klink/cmd/lab"
	"klink/cmd/lab/install"
	"klink/cmd/lab/mm2"
	"klink/contrast"
)

// mm2Mode mirrors with MirrorMaker 2. It promises nothing here: what it keeps is
// what is measured.
type mm2Mode struct {
	name string
	// settings is the name of a settings file of package mm2.
	settings string
	// patience is what a commit takes at most by these settings.
	patience time.Duration
	// translates is whether consumers have to translate checkpoints themselves, as
	// RemoteClusterUtils does; else the target has the group's commits.
	translates bool
	kafka      *install.Distribution
}

// mm2Modes are MirrorMaker 2 as it comes and with the settings that were best for
// a switch. By default an offset sync, a checkpoint and a commit wait for up to a
// minute each, and group offsets are not written at all.
func mm2Modes(kafka *install.Distribution) []contrast.Mode {
	return []contrast.Mode{
		mm2Mode{name: "mm2-default", settings: "default", patience: 130 * time.Second, translates: true, kafka: kafka},
		mm2Mode{name: "mm2-tuned", settings: "failover", patience: 20 * time.Second, kafka: kafka},
	}
}

func (m mm2Mode) Name() string            { return m.name }
func (mm2Mode) Promise() contrast.Promise { return contrast.Promise{} }
func (m mm2Mode) Patience() time.Duration { return m.patience }

// The aliases of both clusters.
const mm2Source, mm2Target = "source", "target"

// Start runs it in its dedicated mode.
func (m mm2Mode) Start(_ context.Context, j contrast.Job) (contrast.Mirror, error) {
	r, err := newMirrorProcess(j.Target)
	if err != nil {
		return nil, err
	}
	var cmd *exec.Cmd
	cmd, err = mm2.Command(m.kafka, r.dir, m.settings, mm2.Values{Source: j.Source.Bootstrap()[0], Target: j.Target.Bootstrap()[0],
		S: mm2Source, T: mm2Target, Topics: strings.Join(j.Topics, ","), Codec: "lz4"})
	if err == nil {
		cmd.Dir = r.dir
		err = r.run(cmd)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return &mm2Run{mirrorProcess: r, mode: m, target: j.Target}, nil
}

// mm2Run is MirrorMaker 2 at work.
type mm2Run struct {
	*mirrorProcess
	mode   mm2Mode
	target contrast.Cluster
}

// TargetTopic implements contrast.Mirror: the settings have the identity policy.
func (r *mm2Run) TargetTopic(topic string) string { return topic }

// Move implements contrast.Mirror: nothing is asked for.
func (r *mm2Run) Move(context.Context) error { return nil }

// Resume implements contrast.Mirror.
func (r *mm2Run) Resume(ctx context.Context, group string) (map[lab.Partition]int64, error) {
	if !r.mode.translates {
		return r.committed(ctx, group)
	}
	all, err := mm2.ReadCheckpoints(ctx, r.target, mm2Source, group)
	if err != nil {
		return nil, fmt.Errorf("read the checkpoints of %s: %w", group, err)
	}
	places := map[lab.Partition]int64{}
	for p, c := range all {
		places[p] = c.Downstream
	}
	return places, nil
}
