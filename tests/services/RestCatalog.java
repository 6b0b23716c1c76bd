import java.io.FileInputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's reference REST catalog on loopback. Arguments: port, a file of properties (those with `fs.` are Hadoop's). */
public class RestCatalog {
    public static void main(String[] arguments) throws Exception {
        Properties read = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[1])) {
            read.load(file);
        }
        Configuration hadoop = new Configuration();
        Map<String, String> properties = new HashMap<>();
        for (String name : read.stringPropertyNames()) {
            if (name.startsWith("fs.")) {
                hadoop.set(name, read.getProperty(name));
            } else {
                properties.put(name, read.getProperty(name));
            }
        }
        JdbcCatalog catalog = new JdbcCatalog();
        catalog.setConf(hadoop);
        catalog.initialize("reference", properties);
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(arguments[0]));
        server.addConnector(connector);
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        server.setHandler(context);
        server.start();
        server.join();
    }
}
