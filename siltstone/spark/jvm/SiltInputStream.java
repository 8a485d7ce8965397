package siltstone;

import java.io.EOFException;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.IntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.util.functional.FutureIO;
import siltstone.SiltFileSystem.Manifest;
import siltstone.SiltFileSystem.Run;
import siltstone.SiltFileSystem.SegmentFile;

/**
 * The bytes of one segment, from its chunks; each chunk is read through the file system of its own scheme.
 *
 * <p>A chunk is opened when its first byte is needed; only one is open at a time. A read never goes beyond the bytes of
 * the manifest: a chunk may hold more, and a chunk that holds less is an error, not the end of the file. No failure is
 * reported as a missing file, so a setting that skips missing files never skips lost bytes.
 */
final class SiltInputStream extends FSInputStream implements CanUnbuffer, StreamCapabilities {
    private static final int OPEN_AT_ONCE = 4;
    private final Manifest manifest;
    private final SegmentFile file;
    private final Configuration conf;
    private final int bufferSize;
    private final String policy;
    private final FileSystem.Statistics statistics;
    private long position;
    private boolean closed;
    private FSDataInputStream chunk;
    private Run run;
    private byte[] block;
    private Run blockRun;
    private long blockNumber;

    SiltInputStream(Manifest manifest, SegmentFile file, Configuration conf, int bufferSize, String policy,
            FileSystem.Statistics statistics) {
        this.manifest = manifest;
        this.file = file;
        this.conf = conf;
        this.bufferSize = bufferSize;
        this.policy = policy;
        this.statistics = statistics;
    }

    @Override
    public synchronized long getPos() {
        return position;
    }

    @Override
    public synchronized void seek(long target) throws IOException {
        checkOpen();
        if (target < 0 || target > file.length()) {
            throw new EOFException("seek to " + target + " in a file of " + file.length() + " bytes");
        }
        position = target;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    @Override
    public synchronized int available() throws IOException {
        checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, file.length() - position);
    }

    @Override
    public synchronized int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public synchronized int read(byte[] target, int offset, int length) throws IOException {
        checkOpen();
        if (offset < 0 || length < 0 || length > target.length - offset) {
            throw new IndexOutOfBoundsException();
        }
        if (length == 0) {
            return 0;
        }
        if (position >= file.length()) {
            return -1;
        }
        Run here = runHere();
        int wanted = (int) Math.min(length, here.end() - position);
        int count = manifest.verify
            ? readVerified(here, target, offset, wanted)
            : readPlain(here, here.chunkOffset() + position - here.start(), target, offset, wanted);
        position += count;
        return count;
    }

    private Run runHere() {
        if (run != null && position >= run.start() && position < run.end()) {
            return run;
        }
        return file.runs()[file.runAt(position)];
    }

    private int readPlain(Run here, long at, byte[] target, int offset, int wanted) throws IOException {
        try {
            FSDataInputStream stream = chunkOf(here);
            if (stream.getPos() != at) {
                stream.seek(at);
            }
            int count = stream.read(target, offset, wanted);
            if (count >= 0) {
                return count;
            }
        } catch (IOException error) {
            throw failure(here, at, error);
        }
        throw failure(here, at, new EOFException());
    }

    /** Copies from the block that holds the position, after comparing the whole block with its sum. */
    private int readVerified(Run here, byte[] target, int offset, int wanted) throws IOException {
        long at = here.chunkOffset() + position - here.start();
        long number = at / Run.BLOCK;
        if (block == null || blockRun != here || blockNumber != number) {
            if (block == null) {
                block = new byte[Run.BLOCK];
            }
            blockRun = null;
            if (!readBlock(here, number)) {
                // Read it again, without what this stream may have buffered.
                closeChunk();
                if (!readBlock(here, number)) {
                    throw damaged(here, number);
                }
            }
            blockRun = here;
            blockNumber = number;
        }
        int from = (int) (at - number * Run.BLOCK);
        int count = Math.min(wanted, here.blockLength(number) - from);
        System.arraycopy(block, from, target, offset, count);
        return count;
    }

    private boolean readBlock(Run here, long number) throws IOException {
        int length = here.blockLength(number);
        for (int have = 0; have < length;) {
            have += readPlain(here, number * Run.BLOCK + have, block, have, length - have);
        }
        return here.matches(number, ByteBuffer.wrap(block, 0, length));
    }

    private FSDataInputStream chunkOf(Run here) throws IOException {
        if (chunk == null || run != here) {
            closeChunk();
            chunk = openChunk(here);
            run = here;
        }
        return chunk;
    }

    /** Opens a chunk and states its length, which saves a request to object stores. */
    private FSDataInputStream openChunk(Run here) throws IOException {
        manifest.checkAlive();
        FutureDataInputStreamBuilder builder = here.chunk().path().getFileSystem(conf).openFile(here.chunk().path());
        builder.opt("fs.option.openfile.length", Long.toString(here.chunk().length()));
        builder.opt("fs.option.openfile.buffer.size", Integer.toString(bufferSize));
        if (policy != null) {
            builder.opt(SiltFileSystem.READ_POLICY, policy);
        }
        return FutureIO.awaitFuture(builder.build());
    }

    // --- several ranges at once -------------------------------------------------------------------

    /** A part of a range that is in one run, and the bytes that are read for it: more if blocks are verified. */
    private static final class Piece {
        final Run run;
        final long at;
        final int length;
        final long readAt;
        final int readLength;
        final boolean whole;
        final CompletableFuture<ByteBuffer> data = new CompletableFuture<>();

        Piece(Run run, long at, int length, long readAt, int readLength, boolean whole) {
            this.run = run;
            this.at = at;
            this.length = length;
            this.readAt = readAt;
            this.readLength = readLength;
            this.whole = whole;
        }

        /** Whether one call may read both: they are in one run, one after the other, and are read in the same way. */
        boolean follows(Piece other) {
            return run == other.run && whole == other.whole && readAt >= other.readAt + other.readLength;
        }
    }

    @Override
    public void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
        synchronized (this) {
            checkOpen();
        }
        boolean local = true;
        for (FileRange range : ranges) {
            if (range.getOffset() < 0 || range.getLength() < 0) {
                throw new IllegalArgumentException("a range begins below 0 or has no length: " + range);
            }
            // The sum of offset and length could overflow.
            if (range.getOffset() > file.length() - range.getLength()) {
                throw new EOFException("a range ends beyond the file of " + file.length() + " bytes: " + range);
            }
            local = local && isLocal(range.getOffset(), range.getOffset() + range.getLength());
        }
        if (local) {
            readLocal(ranges, allocate);
        } else {
            readThrough(ranges, allocate);
        }
    }

    private boolean isLocal(long offset, long end) throws IOException {
        for (int i = file.runAt(offset); i < file.runs().length && file.runs()[i].start() < end; i++) {
            if (!(file.runs()[i].chunk().path().getFileSystem(conf) instanceof LocalFileSystem)) {
                return false;
            }
        }
        return true;
    }

    private void readLocal(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) throws IOException {
        manifest.checkAlive();
        Map<Run, List<LocalRanges.Part>> parts = new LinkedHashMap<>();
        for (FileRange range : ranges) {
            long end = range.getOffset() + range.getLength();
            ByteBuffer target = allocate.apply(range.getLength());
            ByteBuffer rest = target.duplicate();
            CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
            for (long at = range.getOffset(); at < end;) {
                Run here = file.runs()[file.runAt(at)];
                int length = (int) (Math.min(end, here.end()) - at);
                long inChunk = here.chunkOffset() + at - here.start();
                CompletableFuture<Void> done = new CompletableFuture<>();
                parts.computeIfAbsent(here, run -> new ArrayList<>())
                    .add(new LocalRanges.Part(here, inChunk, rest.slice(rest.position(), length), done));
                all = all.thenCombine(done.exceptionally(error -> {
                    throw new CompletionException(failure(here, inChunk, error));
                }), (one, other) -> null);
                rest.position(rest.position() + length);
                at += length;
            }
            target.limit(rest.position());
            range.setData(all.thenApply(nothing -> target));
            statistics.incrementBytesRead(range.getLength());
        }
        for (Map.Entry<Run, List<LocalRanges.Part>> each : parts.entrySet()) {
            Path chunk = each.getKey().chunk().path();
            File place = ((LocalFileSystem) chunk.getFileSystem(conf)).pathToFile(chunk);
            LocalRanges.read(place, each.getValue(), manifest.verify);
        }
    }

    /** Lets the file systems of the chunks read; they know best which ranges to read together. */
    private void readThrough(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate) {
        List<Piece> pieces = new ArrayList<>();
        for (FileRange range : ranges) {
            List<Piece> own = cut(range.getOffset(), range.getOffset() + range.getLength());
            range.setData(joined(own, range.getLength(), allocate));
            pieces.addAll(own);
        }
        pieces.sort((one, other) -> one.run == other.run
            ? Long.compare(one.readAt, other.readAt) : Long.compare(one.run.start(), other.run.start()));
        Deque<CompletableFuture<Void>> open = new ArrayDeque<>();
        for (int begin = 0; begin < pieces.size();) {
            int end = begin + 1;
            while (end < pieces.size() && pieces.get(end).follows(pieces.get(end - 1))) {
                end++;
            }
            if (open.size() == OPEN_AT_ONCE) {
                open.remove().join();
            }
            open.add(read(pieces.subList(begin, end), allocate));
            begin = end;
        }
    }

    private List<Piece> cut(long offset, long end) {
        List<Piece> found = new ArrayList<>();
        for (long at = offset; at < end;) {
            Run here = file.runs()[file.runAt(at)];
            int length = (int) (Math.min(end, here.end()) - at);
            long inChunk = here.chunkOffset() + at - here.start();
            long readAt = inChunk;
            long readEnd = inChunk + length;
            if (manifest.verify) {
                readAt -= readAt % Run.BLOCK;
                readEnd = Math.min(here.chunk().length(), (readEnd + Run.BLOCK - 1) / Run.BLOCK * Run.BLOCK);
            }
            boolean whole = !manifest.verify && at == offset && at + length == end;
            found.add(new Piece(here, inChunk, length, readAt, Math.toIntExact(readEnd - readAt), whole));
            at += length;
        }
        return found;
    }

    /** The data of a range, when all its pieces have been read. */
    private static CompletableFuture<ByteBuffer> joined(
            List<Piece> pieces, int length, IntFunction<ByteBuffer> allocate) {
        if (pieces.size() == 1 && pieces.get(0).whole) {
            return pieces.get(0).data;
        }
        CompletableFuture<?>[] parts = pieces.stream().map(piece -> piece.data).toArray(CompletableFuture<?>[]::new);
        return CompletableFuture.allOf(parts).thenApply(nothing -> {
            ByteBuffer target = allocate.apply(length);
            int start = target.position();
            for (Piece piece : pieces) {
                target.put(piece.data.join());
            }
            target.limit(target.position());
            target.position(start);
            return target;
        });
    }

    /** Reads pieces of one run through a stream of their own; the result completes when that stream is closed. */
    private CompletableFuture<Void> read(List<Piece> pieces, IntFunction<ByteBuffer> allocate) {
        Run here = pieces.get(0).run;
        FSDataInputStream stream;
        List<FileRange> wanted = new ArrayList<>();
        try {
            stream = openChunk(here);
            for (Piece piece : pieces) {
                wanted.add(FileRange.createFileRange(piece.readAt, piece.readLength, piece));
            }
            stream.readVectored(wanted, pieces.get(0).whole ? allocate : ByteBuffer::allocate);
        } catch (IOException | RuntimeException error) {
            for (Piece piece : pieces) {
                piece.data.completeExceptionally(failure(here, piece.readAt, error));
            }
            return CompletableFuture.completedFuture(null);
        }
        List<CompletableFuture<?>> done = new ArrayList<>();
        for (FileRange range : wanted) {
            Piece piece = (Piece) range.getReference();
            done.add(range.getData().handle((data, error) -> {
                complete(piece, data, error);
                return null;
            }));
        }
        return CompletableFuture.allOf(done.toArray(new CompletableFuture<?>[0])).thenRun(() -> closeQuietly(stream));
    }

    private void complete(Piece piece, ByteBuffer data, Throwable error) {
        if (error != null) {
            piece.data.completeExceptionally(failure(piece.run, piece.readAt, error));
            return;
        }
        if (data.remaining() != piece.readLength) {
            piece.data.completeExceptionally(
                failure(piece.run, piece.readAt + data.remaining(), new EOFException()));
            return;
        }
        if (manifest.verify) {
            for (int from = 0; from < piece.readLength; from += Run.BLOCK) {
                long number = (piece.readAt + from) / Run.BLOCK;
                int length = Math.min(Run.BLOCK, piece.readLength - from);
                if (!piece.run.matches(number, data.slice(data.position() + from, length))) {
                    piece.data.completeExceptionally(damaged(piece.run, number));
                    return;
                }
            }
            data = data.slice(data.position() + (int) (piece.at - piece.readAt), piece.length);
        }
        piece.data.complete(data);
    }

    private static void closeQuietly(FSDataInputStream stream) {
        try {
            stream.close();
        } catch (IOException error) {
            // All requested bytes have already been read.
        }
    }

    // --- the end ----------------------------------------------------------------------------------

    @Override
    public boolean hasCapability(String capability) {
        return UNBUFFER.equals(capability) || VECTOREDIO.equals(capability);
    }

    @Override
    public synchronized void unbuffer() {
        closeChunk();
        block = null;
        blockRun = null;
    }

    @Override
    public synchronized void close() {
        closed = true;
        unbuffer();
    }

    private void closeChunk() {
        if (chunk != null) {
            closeQuietly(chunk);
        }
        chunk = null;
        run = null;
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new IOException("stream of segment " + file.segment() + " is closed");
        }
    }

    /** The error of a failed read of a chunk, with segment, chunk and offsets. */
    private IOException failure(Run here, long at, Throwable error) {
        Throwable cause = error instanceof CompletionException && error.getCause() != null ? error.getCause() : error;
        if (cause instanceof LocalRanges.DamagedException damaged) {
            return damaged(here, damaged.number);
        }
        String what = "chunk cannot be read: " + cause;
        if (cause instanceof FileNotFoundException) {
            what = "chunk does not exist any more";
        } else if (cause instanceof EOFException) {
            what = "chunk is shorter than the " + here.chunk().length() + " bytes that were committed";
        }
        return new IOException(what + where(here, at), cause);
    }

    private IOException damaged(Run here, long number) {
        return new IOException("block does not match its sum" + where(here, number * Run.BLOCK));
    }

    private String where(Run here, long at) {
        long offset = file.offset() + here.start() + Math.max(0, at - here.chunkOffset());
        return " segment=" + file.segment() + " offset=" + offset + " chunk=" + here.chunk().path()
            + " chunk_offset=" + at;
    }
}
