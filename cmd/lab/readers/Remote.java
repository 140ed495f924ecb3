import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks MirrorMaker 2's client about a cluster: Remote OUTPUT [WORD VALUE...]..., where
 * set KEY VALUE is a setting, and the questions are upstream, checkpoints, heartbeats,
 * hops ALIAS, topics ALIAS and translate ALIAS GROUP MILLISECONDS. Each line of the output
 * is a question and one thing that was answered, URL-encoded and set apart by spaces.
 */
public class Remote {
    private final Map<String, Object> config = new HashMap<>();
    private final PrintStream out;

    private Remote(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        try (PrintStream out = new PrintStream(new FileOutputStream(args[0]), false, StandardCharsets.US_ASCII)) {
            Remote remote = new Remote(out);
            for (int i = 1; i < args.length;) {
                i = remote.next(args, i);
            }
            out.println("END");
            if (out.checkError()) {
                throw new IOException("the output could not be written");
            }
        }
    }

    /** Does what begins at an argument and returns where the next begins. */
    private int next(String[] args, int i) throws Exception {
        switch (args[i]) {
            case "set":
                config.put(args[i + 1], args[i + 2]);
                return i + 3;
            case "upstream":
                all(RemoteClusterUtils.upstreamClusters(config), "upstream");
                return i + 1;
            case "checkpoints":
                all(RemoteClusterUtils.checkpointTopics(config), "checkpoints");
                return i + 1;
            case "heartbeats":
                all(RemoteClusterUtils.heartbeatTopics(config), "heartbeats");
                return i + 1;
            case "hops":
                line("hops", args[i + 1], RemoteClusterUtils.replicationHops(config, args[i + 1]));
                return i + 2;
            case "topics":
                try (MirrorClient client = new MirrorClient(config)) {
                    all(client.remoteTopics(args[i + 1]), "topics", args[i + 1]);
                }
                return i + 2;
            case "translate":
                translate(args[i + 1], args[i + 2], Duration.ofMillis(Long.parseLong(args[i + 3])));
                return i + 4;
            default:
                throw new IllegalArgumentException(args[i]);
        }
    }

    private void translate(String alias, String group, Duration timeout) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = RemoteClusterUtils.translateOffsets(config, alias, group, timeout);
        for (Map.Entry<TopicPartition, OffsetAndMetadata> e : offsets.entrySet()) {
            line("translate", alias, group, e.getKey().topic(), e.getKey().partition(), e.getValue().offset(), e.getValue().metadata());
        }
    }

    private void all(Collection<String> answers, Object... question) {
        for (String answer : new TreeSet<>(answers)) {
            Object[] fields = Arrays.copyOf(question, question.length + 1);
            fields[question.length] = answer;
            line(fields);
        }
    }

    private void line(Object... fields) {
        StringBuilder text = new StringBuilder();
        for (Object field : fields) {
            text.append(text.length() == 0 ? "" : " ").append(URLEncoder.encode(String.valueOf(field), StandardCharsets.UTF_8));
        }
        out.println(text);
    }
}
