package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"klink/linker/state"
)

// Version is the version of the JSON contract.
const Version = 1

// JSON writes a result, which must marshal to an object, as one object that
// begins with _command and _version (J1).
func JSON(w io.Writer, command string, result any) error {
	body, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result of %s: %w", command, err)
	}
	rest, ok := bytes.CutPrefix(body, []byte("{"))
	if !ok {
		return fmt.Errorf("encode the result of %s: %T is no object", command, result)
	}
	head := fmt.Sprintf(`{"_command":%q,"_version":%d`, command, Version)
	if !bytes.HasPrefix(rest, []byte("}")) {
		head += ","
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append([]byte(head), rest...), "", "  "); err != nil {
		return fmt.Errorf("encode the result of %s: %w", command, err)
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}

// Complete returns the report with empty lists where it has none (J1). The
// given one is left as it is.
func Complete(r state.Report) state.Report {
	r.Links = append([]state.Link{}, r.Links...)
	for i := range r.Links {
		l := &r.Links[i]
		l.Warnings = append([]state.Warning{}, l.Warnings...)
		l.Topics = append([]state.Topic{}, l.Topics...)
		for j := range l.Topics {
			t := &l.Topics[j]
			t.Partitions = append([]state.Partition{}, t.Partitions...)
			for k := range t.Partitions {
				t.Partitions[k].Flags = append([]string{}, t.Partitions[k].Flags...)
			}
		}
		l.Groups = append([]state.Group{}, l.Groups...)
		for j := range l.Groups {
			l.Groups[j].Partitions = append([]state.GroupPartition{}, l.Groups[j].Partitions...)
		}
	}
	return r
}
