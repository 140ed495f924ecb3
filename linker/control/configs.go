package control

import "encoding/json"

// Config is one setting of a topic as it was seen.
type Config struct {
	Value string `json:"value"`
	// Explicit is true where it was set on the topic itself, false where it came
	// from the cluster's brokers.
	Explicit bool `json:"explicit,omitempty"`
}

// Configs are settings by name, as JSON with sorted names, so that records that
// hold them can be compared; "" is none.
type Configs string

// NewConfigs returns the settings of a map.
func NewConfigs(m map[string]Config) Configs {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("control: strings and booleans are JSON: " + err.Error())
	}
	return Configs(b)
}

// All returns the settings by name, nil for none. What NewConfigs did not make
// gives none.
func (c Configs) All() map[string]Config {
	var m map[string]Config
	if c == "" || json.Unmarshal([]byte(c), &m) != nil {
		return nil
	}
	return m
}
