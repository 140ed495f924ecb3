package mm2

// Filter keeps a group's position on the target from going back without cause: it
// tells which checkpoints MirrorMaker 2 writes (MirrorCheckpointTask.checkpointsForGroup,
// since 3.5). The zero value knows none. It is not safe for use by several
// goroutines.
type Filter struct {
	last map[Key]Checkpoint
}

// Load takes in a checkpoint that was written before, as it is read back.
func (f *Filter) Load(c Checkpoint) {
	if f.last == nil {
		f.last = make(map[Key]Checkpoint)
	}
	f.last[c.Key] = c
}

// Pass tells whether the checkpoint is to be written, and takes it in if so: the
// first of its key, one that is further on the target, or one of a group
// that went back on the source.
func (f *Filter) Pass(c Checkpoint) bool {
	if last, ok := f.last[c.Key]; ok && c.Up >= last.Up && c.Down <= last.Down {
		return false
	}
	f.Load(c)
	return true
}
