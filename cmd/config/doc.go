// Package config turns klink.yaml, the environment and flags into one checked
// Config. It never dials and never writes; it reads the named files only.
//
// Order of precedence: flag, environment, file, default.
//
// Invariants:
//
//	C1  Default and DefaultLink are the only home of defaults; docs/reference.yaml
//	    shows the same ones, and a test compares the two.
//	C2  Nothing that is not understood is passed over: unknown and duplicate
//	    keys, wrong types and values out of range are all reported, together,
//	    each with file, line, field, what is allowed and what to do.
//	C3  A Config holds no secret, only where secrets are kept; each is read anew
//	    whenever it is asked for, and no error text repeats one.
//	C4  A key whose feature this version does not have is refused unless it holds
//	    its default, so that nothing is silently left undone.
package config
