import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Debezium's engine, with a producer for what it emits. Prints "events N MILLISECONDS" after each batch that the
 * broker has acknowledged, and ends when its standard input is closed.
 *
 * Arguments: the engine's properties file, the address of a broker or "-" to count only.
 */
public final class DebeziumToTopics {
    private static long events = 0;

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        KafkaProducer<byte[], byte[]> producer = "-".equals(arguments[1]) ? null : producer(arguments[1]);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println("engine ended: " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    System.exit(1);
                }
            })
            .notifying((batch, committer) -> {
                List<Future<RecordMetadata>> sent = new ArrayList<>(batch.size());
                for (ChangeEvent<String, String> event : batch) {
                    if (producer != null) {
                        sent.add(producer.send(
                            new ProducerRecord<>(event.destination(), bytes(event.key()), bytes(event.value()))));
                    }
                }
                try {
                    for (Future<RecordMetadata> each : sent) {
                        each.get();
                    }
                } catch (java.util.concurrent.ExecutionException error) {
                    throw new IllegalStateException(error);
                }
                for (ChangeEvent<String, String> event : batch) {
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                events += batch.size();
                System.out.println("events " + events + " " + System.currentTimeMillis());
            })
            .build();
        var executor = Executors.newSingleThreadExecutor();
        executor.execute(engine);
        while (System.in.read() >= 0) {
            // The caller closes it.
        }
        engine.close();
        executor.shutdown();
        if (producer != null) {
            producer.close();
        }
        System.exit(0);
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("acks", "all");
        properties.put("linger.ms", "5");
        properties.put("max.request.size", "1000000000");
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
