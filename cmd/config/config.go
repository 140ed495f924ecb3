package config

import "time"

// Config is the whole of klink.yaml.
type Config struct {
	Links []Link `yaml:"links"`
	// Limits are those of the process.
	Limits Limits `yaml:"limits"`
	HTTP   HTTP   `yaml:"http"`
	Log    Log    `yaml:"log"`

	// Unnamed is no key: the only link was made of flags for a command that needs no
	// source, and nothing says what it is called on the target. Its Name is FlagLink.
	Unnamed bool `json:"-"`
}

// Link is one source, one target, and the rules between them.
type Link struct {
	// Name is of [a-z0-9-]; it names the group on the target and the client ids.
	Name               string             `yaml:"name"`
	Mode               Mode               `yaml:"mode"`
	Source             Cluster            `yaml:"source"`
	Target             Cluster            `yaml:"target"`
	Topics             Topics             `yaml:"topics"`
	Groups             Groups             `yaml:"groups"`
	Start              Start              `yaml:"start"`
	FollowStart        bool               `yaml:"follow_start"`
	GapFill            GapFill            `yaml:"gap_fill"`
	PadLimit           int64              `yaml:"pad_limit"` // offsets per partition
	OnUnmirrorable     OnUnmirrorable     `yaml:"on_unmirrorable"`
	OnRetentionOverrun OnRetentionOverrun `yaml:"on_retention_overrun"`
	ACLs               ACLs               `yaml:"acls"`
	Limits             LinkLimits         `yaml:"limits"`
	Audit              Audit              `yaml:"audit"`
	Checkpoint         Checkpoint         `yaml:"checkpoint"`
}

// Cluster says how one cluster is reached.
type Cluster struct {
	// Brokers are bootstrap addresses, host:port.
	Brokers []string `yaml:"brokers"`
	TLS     TLS      `yaml:"tls"`
	SASL    SASL     `yaml:"sasl"`
}

// TLS says how connections are encrypted. Files are PEM and read again at each
// handshake.
type TLS struct {
	Enabled bool `yaml:"enabled"`
	// CAFile holds the authorities to trust; "" means those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's certificate; both or none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name the brokers' certificates must carry; "" means the
	// host dialled.
	ServerName         string `yaml:"server_name"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// SASL says how klink logs in. The secret is read at each login from exactly
// one place (C3).
type SASL struct {
	Mechanism    Mechanism `yaml:"mechanism"`
	Username     string    `yaml:"username"`
	PasswordFile string    `yaml:"password_file"`
	// PasswordEnv is the name of an environment variable.
	PasswordEnv string `yaml:"password_env"`
	TokenFile   string `yaml:"token_file"`
}

// Topics chooses topics of the source and says what they become.
type Topics struct {
	// Include and Exclude hold names, globs with *, /regular expressions/ over
	// the whole name, and =literals.
	Include []string `yaml:"include"`
	Exclude []string `yaml:"exclude"`
	Rename  Rename   `yaml:"rename"`
	// ReplicationFactor of created topics; 0 means as on the source.
	ReplicationFactor int16 `yaml:"replication_factor"`
	// Configs override single configs of created topics.
	Configs map[string]string `yaml:"configs"`
}

// Rename gives target topics other names. A name in Map takes precedence over
// prefix and suffix.
type Rename struct {
	Prefix string            `yaml:"prefix"`
	Suffix string            `yaml:"suffix"`
	Map    map[string]string `yaml:"map"`
}

// Groups chooses the consumer groups whose offsets are carried over.
type Groups struct {
	Include  []string      `yaml:"include"`
	Exclude  []string      `yaml:"exclude"`
	Tail     Tail          `yaml:"tail"`
	Interval time.Duration `yaml:"interval"`
}

// ACLs says whether access rules are carried over.
type ACLs struct {
	Sync bool `yaml:"sync"`
}

// LinkLimits are the limits of one link.
type LinkLimits struct {
	// BytesPerSecond read from the source; 0 is no limit.
	BytesPerSecond Bytes `yaml:"bytes_per_second"`
	// ConnectionsPerBroker are produce connections to each target broker.
	ConnectionsPerBroker int `yaml:"connections_per_broker"`
}

// Audit says whether both sides are compared while mirroring.
type Audit struct {
	Enabled bool `yaml:"enabled"`
	// BytesPerSecond are read of each side at most, beside what is mirrored.
	BytesPerSecond Bytes `yaml:"bytes_per_second"`
}

// Checkpoint holds the settings of checkpoint mode.
type Checkpoint struct {
	// SourceAlias is the link's name where it is "", TargetAlias "target".
	SourceAlias       string            `yaml:"source_alias"`
	TargetAlias       string            `yaml:"target_alias"`
	ReplicationPolicy ReplicationPolicy `yaml:"replication_policy"`
	Separator         string            `yaml:"separator"`
	Interval          time.Duration     `yaml:"interval"`
	HeartbeatInterval time.Duration     `yaml:"heartbeat_interval"`
}

// Limits are the limits of the process.
type Limits struct {
	// FetchMemory bounds the bytes requested from sources and held, of all links
	// together.
	FetchMemory Bytes `yaml:"fetch_memory"`
}

// HTTP is the read-only status service.
type HTTP struct {
	// Listen is host:port; "" is off.
	Listen string `yaml:"listen"`
}

// Log says what is logged and how.
type Log struct {
	Level  Level  `yaml:"level"`
	Format Format `yaml:"format"`
}
