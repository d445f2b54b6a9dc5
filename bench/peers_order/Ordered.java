import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

/** One member of a group under JGroups' SEQUENCER, as `race.py` wants it. */
public class Ordered extends ReceiverAdapter {
    private static final int STEP = 1000, STEPS = 20;
    private final long[] marks = new long[STEPS];
    private final int members;
    private final CountDownLatch all = new CountDownLatch(1);
    private long digest;
    private volatile long delivered;

    private Ordered(int members) {
        this.members = members;
    }

    @Override
    public void viewAccepted(View view) {
        if (view.size() == members) {
            all.countDown();
        }
    }

    @Override
    public synchronized void receive(Message message) {
        long count = delivered + 1;
        if (count <= (long) STEP * STEPS) {
            ByteBuffer id = ByteBuffer.wrap(message.getRawBuffer(), message.getOffset(), 8);
            digest = digest * 31 + id.getLong();
            if (count % STEP == 0) {
                marks[(int) (count / STEP) - 1] = digest;
            }
        }
        delivered = count;
    }

    private static void sleepUntil(long time) throws InterruptedException {
        long left = time - System.nanoTime();
        if (left > 0) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    private static void send(JChannel channel, long index, int size, long end) throws Exception {
        for (long seq = 1; System.nanoTime() < end; seq++) {
            byte[] payload = new byte[size];
            ByteBuffer.wrap(payload).putLong(index << 48 | seq);
            channel.send(new Message(null, null, payload));
        }
    }

    public static void main(String[] arguments) throws Exception {
        long index = Long.parseLong(arguments[1]);
        int size = Integer.parseInt(arguments[3]);
        Ordered own = new Ordered(Integer.parseInt(arguments[2]));
        JChannel channel = new JChannel("sequencer.xml");
        channel.setReceiver(own);
        channel.setOpt(org.jgroups.Channel.LOCAL, true);
        channel.connect(arguments[0]);
        System.out.println("joined");
        own.all.await();
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String[] times = input.readLine().split(" ");
        long begin = Long.parseLong(times[0]), end = Long.parseLong(times[1]);
        if (arguments[4].equals("1")) {
            Thread sender = new Thread(() -> {
                try {
                    send(channel, index, size, end);
                } catch (Exception problem) {
                    problem.printStackTrace();
                }
            });
            sender.setDaemon(true);
            sender.start();
        }
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        sleepUntil(begin);
        long before = own.delivered, cpu = system.getProcessCpuTime();
        sleepUntil(end);
        long count = own.delivered - before;
        double seconds = (system.getProcessCpuTime() - cpu) / 1e9;
        StringJoiner marks = new StringJoiner(",");
        for (int i = 0; i < Math.min(STEPS, own.delivered / STEP); i++) {
            marks.add("\"" + Long.toHexString(own.marks[i]) + "\"");
        }
        String row = "{\"delivered\":%d,\"cpu_s\":%.6f,\"marks\":[%s]}";
        System.out.println(String.format(row, count, seconds, marks));
        input.readLine();
        Runtime.getRuntime().halt(0);
    }
}
