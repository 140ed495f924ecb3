import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads ranges of partitions: Reader OUTPUT BOOTSTRAP ISOLATION [TOPIC PARTITION FROM TO]... */
public class Reader {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[1]);
        config.put("isolation.level", args[2]);
        config.put("auto.offset.reset", "none");
        config.put("enable.auto.commit", "false");
        config.put("check.crcs", "true");
        try (PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(args[0]), 1 << 16), false, StandardCharsets.US_ASCII);
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            Map<TopicPartition, Long> ends = new HashMap<>();
            Map<TopicPartition, Long> starts = new HashMap<>();
            for (int i = 3; i + 3 < args.length; i += 4) {
                TopicPartition partition = new TopicPartition(args[i], Integer.parseInt(args[i + 1]));
                starts.put(partition, Long.parseLong(args[i + 2]));
                ends.put(partition, Long.parseLong(args[i + 3]));
            }
            consumer.assign(starts.keySet());
            starts.forEach(consumer::seek);
            while (!ends.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    Long end = ends.get(new TopicPartition(record.topic(), record.partition()));
                    if (end != null && record.offset() < end) {
                        print(out, record);
                    }
                }
                if (ends.entrySet().removeIf(e -> consumer.position(e.getKey()) >= e.getValue())) {
                    consumer.assign(ends.keySet());
                }
            }
            out.println("END");
            if (out.checkError()) {
                throw new IOException("the output could not be written");
            }
        }
    }

    private static void print(PrintStream out, ConsumerRecord<byte[], byte[]> record) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream canonical = new DataOutputStream(bytes);
        canonical.writeLong(record.timestamp());
        field(canonical, record.key());
        field(canonical, record.value());
        canonical.writeInt(record.headers().toArray().length);
        for (Header header : record.headers()) {
            field(canonical, header.key().getBytes(StandardCharsets.UTF_8));
            field(canonical, header.value());
        }
        out.println(record.topic() + " " + record.partition() + " " + record.offset() + " " + digest(bytes.toByteArray())
            + " " + (record.key() == null ? "-" : digest(record.key())) + " " + (record.value() == null ? "null" : "value"));
    }

    private static void field(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }

    private static String digest(byte[] bytes) throws Exception {
        StringBuilder text = new StringBuilder();
        for (byte b : MessageDigest.getInstance("SHA-256").digest(bytes)) {
            text.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
