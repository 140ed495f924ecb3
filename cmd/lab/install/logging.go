package install

import (
	"os"
	"path/filepath"
	"strings"
)

// log4j2Config and log4j1Config say the same: everything of interest to
// standard output, without the hundreds of lines that list each config value.
const log4j2Config = `status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.config.name = org.apache.kafka.common.config
logger.config.level = warn
logger.metrics.name = org.apache.kafka.common.metrics
logger.metrics.level = warn
logger.appinfo.name = org.apache.kafka.common.utils.AppInfoParser
logger.appinfo.level = warn
`

const log4j1Config = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
log4j.logger.org.apache.kafka.common.config=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
log4j.logger.org.apache.kafka.common.metrics=WARN
log4j.logger.org.apache.kafka.common.utils.AppInfoParser=WARN
`

func (d *Distribution) log4j1() bool { return strings.HasPrefix(d.Version, "3.") }

func (d *Distribution) logConfig() string { return filepath.Join(d.Dir, "log4j.properties") }

// writeLogConfig puts the logging settings of this version's log4j into dir.
func (d *Distribution) writeLogConfig() error {
	text := log4j2Config
	if d.log4j1() {
		text = log4j1Config
	}
	return os.WriteFile(d.logConfig(), []byte(text), 0o644)
}

func (d *Distribution) logFlag() string {
	if d.log4j1() {
		return "-Dlog4j.configuration=file:" + d.logConfig()
	}
	return "-Dlog4j2.configurationFile=" + d.logConfig()
}
