package changefeed;

import io.delta.storage.HDFSLogStore;
import java.io.File;
import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes files of Delta's log on a local disk. A new file gets its name by a hard link, which fails if the name is taken. */
public class LinkLogStore extends HDFSLogStore {
    public LinkLogStore(Configuration configuration) {
        super(configuration);
    }

    /** Throws java.nio.file.FileAlreadyExistsException, as Delta expects it, if the file exists and must not be replaced. */
    public void write(Path path, Iterator lines, Boolean overwrite, Configuration configuration) throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, lines, overwrite, configuration);
            return;
        }
        java.nio.file.Path file = new File(path.toUri().getPath()).toPath();
        java.nio.file.Path unfinished = new File(createTempPath(path).toUri().getPath()).toPath();
        try {
            OpenOption[] options = {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE};
            Writer writer = Files.newBufferedWriter(unfinished, StandardCharsets.UTF_8, options);
            try {
                while (lines.hasNext()) {
                    writer.write((String) lines.next());
                    writer.write("\n");
                }
            } finally {
                writer.close();
            }
            Files.createLink(file, unfinished);
        } finally {
            unfinished.toFile().delete();
        }
    }
}
