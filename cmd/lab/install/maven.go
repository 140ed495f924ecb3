package install

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

// copyPlugin is pinned so that a Maven of any age resolves the same way.
const copyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

// log4jBinding joins slf4j 1.7, which Kafka 4 logs to, with log4j 2. Kafka 3.9
// brings a binding of its own.
const log4jBinding = "2.25.4"

var pomTemplate = template.Must(template.New("pom").Parse(`<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>klink.lab</groupId>
  <artifactId>kafka</artifactId>
  <version>{{.Version}}</version>
  <packaging>pom</packaging>
  <dependencies>
{{- range .Artifacts}}
    <dependency><groupId>org.apache.kafka</groupId><artifactId>{{.}}</artifactId><version>{{$.Version}}</version></dependency>
{{- end}}
{{- if .Log4j}}
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>{{.Log4j}}</version></dependency>
{{- end}}
  </dependencies>
</project>
`))

// kafkaArtifacts hold the broker, the command-line tools, and MirrorMaker 2
// with the Connect runtime that it lives in.
var kafkaArtifacts = []string{"kafka_2.13", "kafka-tools", "connect-runtime", "connect-mirror"}

// resolveJars fills dir/jars with everything that version needs at run time.
// Maven's output is kept in logPath when it fails.
func resolveJars(ctx context.Context, dir, version, logPath string) error {
	mvn, err := findMaven()
	if err != nil {
		return fmt.Errorf("%w; %s", err, advice)
	}
	pom := struct {
		Version, Log4j string
		Artifacts      []string
	}{Version: version, Artifacts: kafkaArtifacts}
	if !strings.HasPrefix(version, "3.") {
		pom.Log4j = log4jBinding
	}
	pomPath := filepath.Join(dir, "pom.xml")
	f, err := os.Create(pomPath)
	if err != nil {
		return err
	}
	err = pomTemplate.Execute(f, pom)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", pomPath, err)
	}
	jars := filepath.Join(dir, "jars")
	cmd := exec.CommandContext(ctx, mvn, "-B", "-f", pomPath, copyPlugin,
		"-DincludeScope=runtime", "-DoutputDirectory="+jars)
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if werr := os.WriteFile(logPath, out, 0o644); werr != nil {
			return fmt.Errorf("Kafka %s %w: Maven: %w (its output could not be kept: %w)", version, ErrNotFetched, err, werr)
		}
		return fmt.Errorf("Kafka %s %w: Maven: %w (is this version published, and is a repository reachable? Maven's output: %s)", version, ErrNotFetched, err, logPath)
	}
	return checkJars(jars, version)
}

// checkJars refuses a folder that could not run a broker: Maven may succeed
// with less than was asked for when a mirror serves odd metadata.
func checkJars(jars, version string) error {
	for _, artifact := range kafkaArtifacts {
		if _, err := os.Stat(filepath.Join(jars, artifact+"-"+version+".jar")); err != nil {
			return fmt.Errorf("Kafka %s %w: %s is missing among the jars that Maven brought", version, ErrNotFetched, artifact)
		}
	}
	return nil
}
