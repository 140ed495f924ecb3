package translate

import "klink/translate/exact"

// Line is a mirrored partition with klink's exact map of it.
type Line struct {
	Source, Target Partition
	// Map is where copies lie; nil where every record keeps its offset.
	Map *exact.Map
	// SourceLog and TargetLog bound what is answered. That of the target has to be
	// known where Map is nil.
	SourceLog, TargetLog Bounds
	// Trouble is why nothing can be answered; "" for nothing.
	Trouble Reason
}

// ToTarget translates a group's source offset.
func (l Line) ToTarget(c Commit) Answer {
	a := Answer{Source: l.Source, Target: l.Target, Asked: c}
	if r := l.silent(c, l.TargetLog); r != "" {
		return a.none(r)
	}
	if l.Map == nil {
		return a.kept(l.TargetLog)
	}
	return a.found(l.Map.ToTarget(c.Offset), l.untold()).within(l.TargetLog)
}

// ToSource translates a group's target offset, for the way back.
func (l Line) ToSource(c Commit) Answer {
	a := Answer{Source: l.Source, Target: l.Target, Asked: c}
	if r := l.silent(c, l.TargetLog); r != "" {
		return a.none(r)
	}
	if l.Map == nil {
		// What the target has was the source's, at the same offset.
		return a.kept(l.TargetLog).within(l.SourceLog)
	}
	return a.found(l.Map.ToSource(c.Offset), l.untold()).within(l.SourceLog)
}

// silent is why there is no answer, before anything is looked up.
func (l Line) silent(c Commit, target Bounds) Reason {
	switch {
	case l.Trouble != "":
		return l.Trouble
	case c.Offset == Unknown:
		return NoGroup
	case target.Missing:
		return NotMirrored
	case l.Map == nil && target.End == Unknown:
		return LogUnknown
	}
	return ""
}

// kept answers where offsets are kept, up to the end of what was copied.
func (a Answer) kept(copied Bounds) Answer {
	a.Offset, a.Kind = a.Asked.Offset, Exact
	a.Ahead = max(0, a.Offset-copied.End)
	return a.within(copied)
}

// untold is why the map does not tell of an offset.
func (l Line) untold() Reason {
	if l.Map.Len() > 0 {
		return Unmapped
	}
	return NothingCopied
}

// found turns what a map says into an answer, without one for a reason.
func (a Answer) found(m exact.Answer, none Reason) Answer {
	a.Offset, a.Ahead = m.Offset, m.Ahead
	switch m.Kind {
	case exact.Exact, exact.AtEnd:
		a.Kind = Exact
	case exact.Next, exact.BelowMap:
		a.Kind = Next
	case exact.Ahead:
		a.Kind = Clamped
	default:
		return a.none(none)
	}
	return a
}
