import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.embedded.async.ConvertingAsyncEngineBuilderFactory;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Runs Debezium's engine and appends what it emits to a file, one JSON object a line: `Recorder PROPERTIES FILE`.
 *
 * With the property `recorder.written`, only events whose topic ends so are written; the next one that is has the number of
 * all others before it, as `skipped`.
 */
public final class Recorder {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream in = new FileInputStream(arguments[0])) {
            properties.load(in);
        }
        // Dies, as if killed, behind so many records; offsets of the last batch are then not stored.
        long last = Long.parseLong(properties.getProperty("recorder.records", "-1"));
        String written = properties.getProperty("recorder.written", "");
        FileOutputStream out = new FileOutputStream(arguments[1], true);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine
                .create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class),
                        ConvertingAsyncEngineBuilderFactory.class.getName())
                .using(properties)
                .using((success, message, error) -> {
                    System.err.println("engine ended: " + success + " " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                })
                .notifying(new Writer(out, last, written))
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                engine.close();
            } catch (IOException | IllegalStateException error) {
                System.err.println("close: " + error);
            }
        }));
        engine.run();
    }

    private static final class Writer implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
        private final FileOutputStream out;
        private final long last;
        private final String written;
        private long count;
        private long skipped;

        Writer(FileOutputStream out, long last, String written) {
            this.out = out;
            this.last = last;
            this.written = written;
        }

        @Override
        public void handleBatch(List<ChangeEvent<String, String>> events,
                DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) throws InterruptedException {
            try {
                for (ChangeEvent<String, String> event : events) {
                    if (count == last) {
                        Runtime.getRuntime().halt(9);
                    }
                    if (event.destination().endsWith(written)) {
                        out.write((line(event, skipped) + "\n").getBytes("UTF-8"));
                    } else {
                        skipped++;
                    }
                    count++;
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static String line(ChangeEvent<String, String> event, long skipped) throws IOException {
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("topic", event.destination());
        record.put("key", event.key());
        record.put("value", event.value());
        List<List<String>> headers = new ArrayList<>();
        for (Header<?> header : event.headers()) {
            headers.add(List.of(header.getKey(), String.valueOf(header.getValue())));
        }
        record.put("headers", headers);
        if (skipped > 0) {
            record.put("skipped", skipped);
        }
        return JSON.writeValueAsString(record);
    }
}
