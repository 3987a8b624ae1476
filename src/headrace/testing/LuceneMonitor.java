import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.standard.StandardAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.TextField;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultiMatchingQueries;
import org.apache.lucene.monitor.MultipassTermFilteredPresearcher;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.queryparser.classic.MultiFieldQueryParser;

/**
 * Lucene's monitor on a file of queries and a file of documents, one to a line: QUERIES DOCUMENTS COLUMNS BATCH PASSES
 * THREADS ROUNDS HITS. A document has its columns between tabs. The last round is measured, after the others have warmed up the
 * JVM; its numbers are printed. If HITS is not "-", a line for each document has the numbers of its queries.
 */
public final class LuceneMonitor {
    public static void main(String[] arguments) throws Exception {
        List<String> queries = Files.readAllLines(Path.of(arguments[0]));
        List<String> texts = Files.readAllLines(Path.of(arguments[1]));
        String[] columns = arguments[2].split(",");
        int size = Integer.parseInt(arguments[3]);
        int passes = Integer.parseInt(arguments[4]);
        int threads = Integer.parseInt(arguments[5]);
        int rounds = Integer.parseInt(arguments[6]);
        TermFilteredPresearcher presearcher =
            passes > 1 ? new MultipassTermFilteredPresearcher(passes) : new TermFilteredPresearcher();
        Analyzer analyzer = new StandardAnalyzer();
        MultiFieldQueryParser parser = new MultiFieldQueryParser(columns, analyzer);
        parser.setAllowLeadingWildcard(true);
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        try (Monitor monitor = new Monitor(analyzer, presearcher)) {
            long start = System.nanoTime();
            List<MonitorQuery> stored = new ArrayList<>();
            for (int number = 0; number < queries.size(); number++) {
                stored.add(new MonitorQuery(Integer.toString(number), parser.parse(queries.get(number))));
                if (stored.size() == 10_000) {
                    monitor.register(stored);
                    stored.clear();
                }
            }
            monitor.register(stored);
            double registered = (System.nanoTime() - start) / 1e9;
            @SuppressWarnings("unchecked")
            TreeSet<Integer>[] found = new TreeSet[texts.size()];
            double seconds = 0;
            long hits = 0;
            for (int round = 0; round < rounds; round++) {
                start = System.nanoTime();
                hits = run(monitor, executor, texts, columns, size, found);
                seconds = (System.nanoTime() - start) / 1e9;
            }
            if (!arguments[7].equals("-")) {
                try (BufferedWriter writer = Files.newBufferedWriter(Path.of(arguments[7]))) {
                    for (TreeSet<Integer> each : found) {
                        writer.write(String.join(" ", each.stream().map(String::valueOf).toList()) + "\n");
                    }
                }
            }
            System.out.printf(
                "{\"register_s\": %.3f, \"match_s\": %.6f, \"hits\": %d}%n", registered, seconds, hits);
        } finally {
            executor.shutdown();
        }
    }

    private static long run(
        Monitor monitor, ExecutorService executor, List<String> texts, String[] columns, int size,
        TreeSet<Integer>[] found) throws Exception {
        AtomicLong hits = new AtomicLong();
        List<Future<Void>> running = new ArrayList<>();
        for (int start = 0; start < texts.size(); start += size) {
            int first = start;
            int end = Math.min(start + size, texts.size());
            Callable<Void> task = () -> {
                Document[] documents = new Document[end - first];
                for (int number = first; number < end; number++) {
                    documents[number - first] = document(texts.get(number), columns);
                }
                MultiMatchingQueries<QueryMatch> matched = monitor.match(documents, QueryMatch.SIMPLE_MATCHER);
                for (int number = first; number < end; number++) {
                    TreeSet<Integer> own = new TreeSet<>();
                    for (QueryMatch each : matched.getMatches(number - first)) {
                        own.add(Integer.valueOf(each.getQueryId()));
                    }
                    hits.addAndGet(own.size());
                    found[number] = own;
                }
                return null;
            };
            running.add(executor.submit(task));
        }
        for (Future<Void> each : running) {
            each.get();
        }
        return hits.get();
    }

    private static Document document(String text, String[] columns) {
        Document document = new Document();
        String[] parts = text.split("\t", -1);
        for (int number = 0; number < columns.length; number++) {
            document.add(new TextField(columns[number], parts[number], Field.Store.NO));
        }
        return document;
    }
}
