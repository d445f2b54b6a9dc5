import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

/**
 * One member of a JGroups group, for a process that is not Java: GROUP MEMBERS ROOM SENDS.
 *
 * Messages to send come on standard input, those received go to standard output, each behind its
 * length.  An empty one says that it has joined, the next that all are there; before that, who
 * SENDS has sent empty ones for a while, since a virtual machine that compiles needs it.  Whoever
 * reads slowly holds up the thread that receives, ROOM messages later.
 */
public class Piped extends ReceiverAdapter {
    private static final int PIPE_BYTES = 1 << 16;
    private static final long WARM_UP_NS = 3_000_000_000L;
    private static final byte[] SIGN = new byte[0];
    private final int members;
    private final CountDownLatch all = new CountDownLatch(1);
    private final BlockingQueue<byte[]> received;

    private Piped(int members, int room) {
        this.members = members;
        this.received = new ArrayBlockingQueue<>(room);
    }

    @Override
    public void viewAccepted(View view) {
        if (view.size() == members) {
            all.countDown();
        }
    }

    @Override
    public void receive(Message message) {
        if (message.getLength() == 0) {
            return;
        }
        try {
            received.put(message.getBuffer());
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private void write(OutputStream to) {
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(to, PIPE_BYTES));
        List<byte[]> lot = new ArrayList<>();
        try {
            while (true) {
                lot.add(received.take());
                received.drainTo(lot);
                for (byte[] message : lot) {
                    out.writeInt(message.length);
                    out.write(message);
                }
                out.flush();
                lot.clear();
            }
        } catch (IOException | InterruptedException gone) {
            Runtime.getRuntime().halt(0);
        }
    }

    private static void warmUp(JChannel channel) throws Exception {
        for (long end = System.nanoTime() + WARM_UP_NS; System.nanoTime() < end; ) {
            channel.send(new Message(null, null, SIGN));
        }
    }

    private static void send(JChannel channel) throws Exception {
        DataInputStream input = new DataInputStream(new BufferedInputStream(System.in, PIPE_BYTES));
        try {
            while (true) {
                byte[] message = new byte[input.readInt()];
                input.readFully(message);
                channel.send(new Message(null, null, message));
            }
        } catch (EOFException end) {
            Runtime.getRuntime().halt(0);
        }
    }

    public static void main(String[] arguments) throws Exception {
        OutputStream out = new FileOutputStream(FileDescriptor.out);
        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // JGroups likes to talk.
        Piped own = new Piped(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
        Thread writer = new Thread(() -> own.write(out));
        writer.setDaemon(true);
        writer.start();
        JChannel channel = new JChannel("udp.xml");
        channel.setReceiver(own);
        channel.setOpt(org.jgroups.Channel.LOCAL, false);
        channel.connect(arguments[0]);
        own.received.put(SIGN);
        own.all.await();
        if (arguments[3].equals("1")) {
            warmUp(channel);
        }
        own.received.put(SIGN);
        send(channel);
    }
}
