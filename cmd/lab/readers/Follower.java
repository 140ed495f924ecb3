import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The one member of a group: Follower BOOTSTRAP GROUP PERIOD_MS PROTOCOL TOPIC... */
public class Follower {
    private static volatile boolean stopping;
    private static final StringBuilder lines = new StringBuilder();

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("group.protocol", args[3]);
        config.put("auto.offset.reset", "none");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        config.put("check.crcs", "true");
        Thread ear = new Thread(Follower::listen);
        ear.setDaemon(true);
        ear.start();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            follow(consumer, Arrays.asList(args).subList(4, args.length), Long.parseLong(args[2]));
        } catch (InvalidOffsetException e) {
            fail("reset", e);
        } catch (Exception e) {
            fail("other", e);
        }
        say("@end");
        flush();
    }

    private static void follow(KafkaConsumer<byte[], byte[]> consumer, List<String> topics, long period) {
        consumer.subscribe(topics);
        long last = System.currentTimeMillis() / period;
        while (!stopping) {
            note(consumer.poll(Duration.ofMillis(50)));
            long now = System.currentTimeMillis() / period;
            if (now != last) {
                commit(consumer);
                last = now;
            }
        }
        commit(consumer);
    }

    /** Whatever was committed has been told before. */
    private static void note(ConsumerRecords<byte[], byte[]> records) {
        for (TopicPartition partition : records.partitions()) {
            long first = -1, next = -1;
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                if (record.offset() != next) {
                    sayRun(partition, first, next);
                    first = record.offset();
                }
                next = record.offset() + 1;
            }
            sayRun(partition, first, next);
        }
        flush();
    }

    private static void sayRun(TopicPartition partition, long first, long next) {
        if (first >= 0) {
            say("@records " + partition.topic() + " " + partition.partition() + " " + first + " " + next);
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        if (consumer.assignment().isEmpty()) {
            return;
        }
        consumer.commitSync();
        for (TopicPartition partition : consumer.assignment()) {
            say("@commit " + partition.topic() + " " + partition.partition() + " " + consumer.position(partition));
        }
        flush();
    }

    private static void listen() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (java.io.IOException e) {
            // The end as well.
        }
        stopping = true;
    }

    private static void fail(String kind, Exception e) {
        say("@error " + kind + " " + e.toString().replace('\n', ' '));
        flush();
        System.exit(1);
    }

    private static void say(String line) {
        lines.append(line).append('\n');
    }

    /** One write, so that no line of the log comes between. */
    private static void flush() {
        byte[] text = lines.toString().getBytes(StandardCharsets.UTF_8);
        lines.setLength(0);
        System.out.write(text, 0, text.length);
        System.out.flush();
    }
}
