import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.LocalDRPC;
import org.apache.storm.coordination.BatchOutputCollector;
import org.apache.storm.drpc.LinearDRPCTopologyBuilder;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseBatchBolt;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Counts by URL in memory, in several tasks; a question goes to all of them, and the parts are added. */
public class StormCounts {
    static final int TASKS = 4;

    /** The first bolt of a linear DRPC topology can only be one task for each question. */
    public static class Question extends BaseBasicBolt {
        @Override
        public void execute(Tuple question, BasicOutputCollector collector) {
            collector.emit(new Values(question.getValue(0), question.getString(1)));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("id", "url"));
        }
    }

    public static class Counts extends BaseRichBolt {
        private OutputCollector collector;
        private Map<String, Long> counts;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
            counts = new HashMap<>();
            long urls = ((Number) conf.get("urls")).longValue();
            for (long url = context.getThisTaskIndex(); url < urls; url += TASKS) {
                counts.put("/" + url, 1L);
            }
        }

        @Override
        public void execute(Tuple question) {
            collector.emit(question, new Values(question.getValue(0), counts.getOrDefault(question.getString(1), 0L)));
            collector.ack(question);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("id", "count"));
        }
    }

    public static class Sum extends BaseBatchBolt<Object> {
        private BatchOutputCollector collector;
        private Object id;
        private long sum;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, BatchOutputCollector collector, Object id) {
            this.collector = collector;
            this.id = id;
        }

        @Override
        public void execute(Tuple part) {
            sum += part.getLong(1);
        }

        @Override
        public void finishBatch() {
            collector.emit(new Values(id, sum));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("id", "sum"));
        }
    }

    public static void main(String[] arguments) {
        try {
            ask(arguments);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // threads of the cluster would keep the process alive
        }
    }

    static void ask(String[] arguments) throws Exception {
        int urls = Integer.parseInt(arguments[0]);
        int warmup = Integer.parseInt(arguments[1]);
        int questions = Integer.parseInt(arguments[2]);
        LinearDRPCTopologyBuilder builder = new LinearDRPCTopologyBuilder("count");
        builder.addBolt(new Question(), 1);
        builder.addBolt(new Counts(), TASKS).allGrouping();
        builder.addBolt(new Sum(), 1).fieldsGrouping(new Fields("id"));
        Config conf = new Config();
        conf.put("urls", urls);
        try (LocalDRPC drpc = new LocalDRPC(); LocalCluster cluster = new LocalCluster()) {
            cluster.submitTopology("counts", conf, builder.createLocalTopology(drpc));
            long[] times = new long[questions];
            for (int number = -warmup; number < questions; number++) {
                long before = System.nanoTime();
                String answer = drpc.execute("count", "/" + Math.floorMod(number, urls));
                if (!answer.equals("1")) {
                    throw new IllegalStateException("the answer is " + answer);
                }
                if (number >= 0) {
                    times[number] = System.nanoTime() - before;
                }
            }
            Arrays.sort(times);
            System.out.printf("answers %f %f%n", times[questions / 2] / 1e6, times[questions * 99 / 100] / 1e6);
            System.out.flush();
            Runtime.getRuntime().halt(0); // stopping the cluster takes seconds, and measures nothing
        }
    }
}
