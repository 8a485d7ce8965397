package siltstone;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Segments as files, read-only: {@code silt://SCHEME+AUTHORITY/FOLDER/system/files/NAME.silt/SEGMENT}.
 *
 * <p>The path up to and including its last part that ends in {@code .silt} is the file manifest, at
 * {@code SCHEME://AUTHORITY/FOLDER/...}; the rest is a path inside the manifest. The manifest says which bytes of which
 * chunks form each file, and never changes, so a file has one length and one content on every machine. Its bytes are
 * specified in docs/formats/file-manifest.md.
 */
public final class SiltFileSystem extends FileSystem {
    static final String SUFFIX = ".silt";
    static final String READ_POLICY = "fs.option.openfile.read.policy";
    private static final long BLOCK_SIZE = 64L << 20;
    private static final FsPermission FILE = new FsPermission((short) 0444);
    private static final FsPermission FOLDER = new FsPermission((short) 0555);
    private URI uri;

    @Override
    public String getScheme() {
        return "silt";
    }

    @Override
    public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        setConf(conf);
        if (name.getAuthority() == null) {
            throw new IOException("not a path of siltstone.spark.files(): " + name);
        }
        uri = URI.create("silt://" + name.getAuthority());
    }

    @Override
    public URI getUri() {
        return uri;
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        return open(path, bufferSize, null);
    }

    @Override
    protected CompletableFuture<FSDataInputStream> openFileWithOptions(Path path, OpenFileParameters given) {
        try {
            String policy = given.getOptions().get(READ_POLICY);
            return CompletableFuture.completedFuture(open(path, given.getBufferSize(), policy));
        } catch (IOException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    private FSDataInputStream open(Path path, int bufferSize, String policy) throws IOException {
        Place place = place(path);
        SegmentFile file = place.manifest.files.get(place.inside);
        if (file == null) {
            throw absent(path, place.manifest.isFolder(place.inside) ? "is a folder" : "no such file in the manifest");
        }
        return new FSDataInputStream(new SiltInputStream(place.manifest, file, getConf(), bufferSize, policy, statistics));
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        Place place = place(path);
        SegmentFile file = place.manifest.files.get(place.inside);
        if (file != null) {
            return status(place.manifest, file, makeQualified(path));
        }
        if (place.manifest.isFolder(place.inside)) {
            return folder(place.manifest, makeQualified(path));
        }
        throw absent(path, "no such file in the manifest");
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        Place place = place(path);
        Manifest manifest = place.manifest;
        SegmentFile file = manifest.files.get(place.inside);
        Path here = makeQualified(path);
        if (file != null) {
            return new FileStatus[] {status(manifest, file, here)};
        }
        if (!manifest.isFolder(place.inside)) {
            throw absent(path, "no such file in the manifest");
        }
        List<FileStatus> found = new ArrayList<>();
        String prefix = place.inside.isEmpty() ? "" : place.inside + "/";
        String key = manifest.files.ceilingKey(prefix);
        while (key != null && key.startsWith(prefix)) {
            String name = key.substring(prefix.length());
            int slash = name.indexOf('/');
            if (slash < 0) {
                found.add(status(manifest, manifest.files.get(key), new Path(here, name)));
                key = manifest.files.higherKey(key);
            } else {
                found.add(folder(manifest, new Path(here, name.substring(0, slash))));
                // '0' is the character after '/', so this is the first name after the whole folder.
                key = manifest.files.ceilingKey(prefix + name.substring(0, slash) + '0');
            }
        }
        return found.toArray(new FileStatus[0]);
    }

    @Override
    public BlockLocation[] getFileBlockLocations(FileStatus status, long start, long length) throws IOException {
        if (start < 0 || length < 0) {
            throw new IllegalArgumentException("start and length must not be negative");
        }
        Place place = place(status.getPath());
        SegmentFile file = place.manifest.files.get(place.inside);
        List<BlockLocation> found = new ArrayList<>();
        if (file == null || start >= file.length) {
            return new BlockLocation[0];
        }
        long end = Math.min(file.length, start + Math.min(length, file.length));
        int first = file.runAt(start);
        for (int i = first; i < file.runs.length && file.runs[i].start < end; i++) {
            Run run = file.runs[i];
            long begin = Math.max(start, run.start);
            FileSystem chunks = run.chunk.path.getFileSystem(getConf());
            FileStatus chunk = new FileStatus(run.chunk.length, false, 1, BLOCK_SIZE, 0, run.chunk.path);
            long inChunk = run.chunkOffset + begin - run.start;
            BlockLocation[] blocks = chunks.getFileBlockLocations(chunk, inChunk, Math.min(end, run.end()) - begin);
            for (BlockLocation block : blocks == null ? new BlockLocation[0] : blocks) {
                long from = Math.max(begin, block.getOffset() - run.chunkOffset + run.start);
                long to = Math.min(Math.min(end, run.end()),
                        block.getOffset() + block.getLength() - run.chunkOffset + run.start);
                if (from < to) {
                    add(found, block, from, to);
                }
            }
            if (i == first && found.size() == 1 && Arrays.equals(found.get(0).getHosts(), new String[] {"localhost"})) {
                // Every file system without locations answers this; asking for the other chunks gives nothing more.
                return new BlockLocation[] {new BlockLocation(
                    found.get(0).getNames(), found.get(0).getHosts(), start, end - start)};
            }
        }
        return found.toArray(new BlockLocation[0]);
    }

    /** Adds a range of the file; joins it to the last one if both are on the same machines. */
    private static void add(List<BlockLocation> found, BlockLocation block, long from, long to) throws IOException {
        if (!found.isEmpty()) {
            BlockLocation last = found.get(found.size() - 1);
            if (last.getOffset() + last.getLength() == from && Arrays.equals(last.getHosts(), block.getHosts())) {
                last.setLength(to - last.getOffset());
                return;
            }
        }
        found.add(new BlockLocation(block.getNames(), block.getHosts(), from, to - from));
    }

    private FileStatus status(Manifest manifest, SegmentFile file, Path path) {
        return new FileStatus(file.length, false, 1, getConf().getLong("fs.silt.block.size", BLOCK_SIZE),
            manifest.madeMs, manifest.madeMs, FILE, "", "", path);
    }

    private static FileStatus folder(Manifest manifest, Path path) {
        return new FileStatus(0, true, 0, 0, manifest.madeMs, manifest.madeMs, FOLDER, "", "", path);
    }

    private static FileNotFoundException absent(Path path, String reason) {
        return new FileNotFoundException(path + ": " + reason);
    }

    /** The target of a path: a manifest, and a path inside it, which is empty for the manifest itself. */
    private record Place(Manifest manifest, String inside) {}

    private Place place(Path path) throws IOException {
        checkPath(path);
        String[] parts = path.toUri().getPath().split("/");
        int last = parts.length - 1;
        while (last >= 0 && !parts[last].endsWith(SUFFIX)) {
            last--;
        }
        if (last < 0) {
            throw absent(path, "not a path of siltstone.spark.files()");
        }
        StringBuilder outside = new StringBuilder();
        for (int i = 0; i <= last; i++) {
            outside.append(parts[i].isEmpty() ? "" : "/").append(unescaped(parts[i]));
        }
        String authority = uri.getAuthority();
        int plus = authority.indexOf('+');
        Path manifest = plus < 0
            ? new Path(authority, null, outside.toString())
            : new Path(authority.substring(0, plus), authority.substring(plus + 1), outside.toString());
        String inside = String.join("/", Arrays.copyOfRange(parts, last + 1, parts.length));
        return new Place(Manifest.at(manifest, getConf()), inside);
    }

    /** Reverts the escapes of {@code siltstone.store.files.paths}: {@code ~} and two hexadecimal digits are a byte. */
    static String unescaped(String part) {
        byte[] raw = part.getBytes(StandardCharsets.UTF_8);
        ByteBuffer plain = ByteBuffer.allocate(raw.length);
        for (int i = 0; i < raw.length; i++) {
            int high = raw[i] == '~' && i + 2 < raw.length ? Character.digit(raw[i + 1], 16) : -1;
            int low = high < 0 ? -1 : Character.digit(raw[i + 2], 16);
            if (low >= 0) {
                plain.put((byte) (high << 4 | low));
                i += 2;
            } else {
                plain.put(raw[i]);
            }
        }
        return new String(plain.array(), 0, plain.position(), StandardCharsets.UTF_8);
    }

    @Override
    public Path getWorkingDirectory() {
        return new Path(uri.toString(), "/");
    }

    @Override
    public void setWorkingDirectory(Path path) {
        // Paths of silt:// are always absolute, so there is no working directory.
    }

    @Override
    public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
            short replication, long blockSize, Progressable progress) throws IOException {
        throw readOnly(path);
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
        throw readOnly(path);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
        throw readOnly(from);
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        throw readOnly(path);
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        throw readOnly(path);
    }

    private static IOException readOnly(Path path) {
        return new IOException(
            "silt:// is read-only; write segments with df.write.format(\"siltstone\"): " + path);
    }

    /** One chunk: its path, and the number of its committed bytes. */
    record Chunk(Path path, long length) {}

    /** Bytes of a file that are contiguous in a chunk, and the CRC32C of each block that they touch. */
    record Run(long start, long length, Chunk chunk, long chunkOffset, int[] sums) {
        static final int BLOCK = 256 << 10;

        long end() {
            return start + length;
        }

        /** The length of a block of the chunk; the last block may be shorter. */
        int blockLength(long number) {
            return (int) Math.min(BLOCK, chunk.length - number * BLOCK);
        }

        /** Whether a whole block of the chunk is unchanged. */
        boolean matches(long number, ByteBuffer data) {
            CRC32C crc = new CRC32C();
            crc.update(data);
            return (int) crc.getValue() == sums[(int) (number - chunkOffset / BLOCK)];
        }
    }

    /** One segment: its runs are in order and without a gap; {@code offset} is the offset of its first byte. */
    record SegmentFile(String segment, long offset, long length, Run[] runs) {
        /** The index of the run that holds a position, by binary search. */
        int runAt(long position) {
            int low = 0;
            int high = runs.length - 1;
            while (low < high) {
                int middle = (low + high + 1) >>> 1;
                if (runs[middle].start <= position) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            return low;
        }
    }

    /** The content of a manifest. */
    static final class Manifest {
        static final int HEAD = 60;
        private static final int KEPT = 16;
        private static final byte[] MAGIC = {'S', 'L', 'T', 'S'};
        private static final Map<Path, Manifest> CACHE = new LinkedHashMap<>(KEPT, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Map.Entry<Path, Manifest> eldest) {
                return size() > KEPT;
            }
        };
        final NavigableMap<String, SegmentFile> files = new TreeMap<>();
        final Path place;
        final boolean verify;
        final long expiresMs;
        final long madeMs;

        /** Returns the manifest at a place, from memory or from storage; refuses it if it has expired. */
        static Manifest at(Path place, Configuration conf) throws IOException {
            Manifest found;
            // All tasks that ask at the same time share one read.
            synchronized (CACHE) {
                found = CACHE.get(place);
                if (found == null) {
                    found = new Manifest(place, load(place, conf));
                    CACHE.put(place, found);
                }
            }
            found.checkAlive();
            return found;
        }

        private static byte[] load(Path place, Configuration conf) throws IOException {
            try (InputStream stream = place.getFileSystem(conf).open(place)) {
                return stream.readAllBytes();
            } catch (FileNotFoundException error) {
                throw new IOException("file manifest is gone; it is removed some time after it expired. "
                    + "Make a new one with siltstone.spark.files(): " + place, error);
            }
        }

        private Manifest(Path place, byte[] raw) throws IOException {
            this.place = place;
            ByteBuffer data = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN);
            if (raw.length < HEAD || !Arrays.equals(MAGIC, 0, 4, raw, 0, 4)) {
                throw damaged("not a file manifest");
            }
            int version = data.getShort(4);
            if (version != 1) {
                throw damaged("file manifest has version " + version + ", and this jar knows only version 1");
            }
            if (data.getInt(HEAD - 4) != sum(raw, 0, HEAD - 4)) {
                throw damaged("head of the file manifest does not match its sum");
            }
            verify = (data.getShort(6) & 1) != 0;
            expiresMs = data.getLong(12);
            madeMs = data.getLong(20);
            if (data.getLong(44) != raw.length - HEAD || data.getInt(52) != sum(raw, HEAD, raw.length - HEAD)) {
                throw damaged("body of the file manifest does not match its length or sum");
            }
            data.position(HEAD);
            for (int pins = data.getInt(); pins > 0; pins--) {
                data.position(data.position() + 4 + 16 + 8);
                text(data);
            }
            Chunk[] chunks = new Chunk[data.getInt()];
            for (int i = 0; i < chunks.length; i++) {
                chunks[i] = new Chunk(new Path(text(data)), data.getLong());
            }
            for (int count = data.getInt(); count > 0; count--) {
                String path = text(data);
                files.put(path, segmentFile(data, chunks));
            }
        }

        private static SegmentFile segmentFile(ByteBuffer data, Chunk[] chunks) {
            String segment = text(data);
            long offset = data.getLong();
            long length = data.getLong();
            Run[] runs = new Run[data.getInt()];
            long start = 0;
            for (int i = 0; i < runs.length; i++) {
                long bytes = data.getLong();
                Chunk chunk = chunks[data.getInt()];
                long chunkOffset = data.getLong();
                int[] sums = new int[data.getInt()];
                data.asIntBuffer().get(sums);
                data.position(data.position() + 4 * sums.length);
                runs[i] = new Run(start, bytes, chunk, chunkOffset, sums);
                start += bytes;
            }
            return new SegmentFile(segment, offset, length, runs);
        }

        private static String text(ByteBuffer data) {
            byte[] raw = new byte[Short.toUnsignedInt(data.getShort())];
            data.get(raw);
            return new String(raw, StandardCharsets.UTF_8);
        }

        private static int sum(byte[] raw, int offset, int length) {
            CRC32C crc = new CRC32C();
            crc.update(raw, offset, length);
            return (int) crc.getValue();
        }

        private IOException damaged(String reason) {
            return new IOException(reason + ": " + place);
        }

        /** After the manifest and its pin have expired, nothing guarantees that the chunks still exist. */
        void checkAlive() throws IOException {
            long now = System.currentTimeMillis();
            if (now >= expiresMs) {
                throw new IOException("file manifest expired at " + Instant.ofEpochMilli(expiresMs)
                    + ", by the clock of the machine that made it; the clock here says " + Instant.ofEpochMilli(now)
                    + "; make a new one with siltstone.spark.files(), if necessary with a longer ttl: " + place);
            }
        }

        boolean isFolder(String path) {
            if (path.isEmpty()) {
                return true;
            }
            String key = files.ceilingKey(path + "/");
            return key != null && key.startsWith(path + "/");
        }
    }
}
