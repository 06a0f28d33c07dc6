//! Small images for the tests of this module.

/// A 64-bit little-endian arm64 program with `__TEXT` (4 KiB of file, header inside), `__DATA` with the given
/// bytes, and `__LINKEDIT` with the tables that the load commands in `extra` point at (from `linkedit_offset` on).
pub(super) struct Builder {
    pub data: Vec<u8>,
    pub linkedit: Vec<u8>,
    pub commands: Vec<Vec<u8>>,
    pub cpu: (u32, u32),
}

const TEXT: u64 = 4096;

fn command(id: u32, body: &[u8]) -> Vec<u8> {
    let mut out = id.to_le_bytes().to_vec();
    out.extend(u32::try_from(body.len() + 8).unwrap().to_le_bytes());
    out.extend(body);
    out
}

fn segment(name: &str, address: u64, vm_bytes: u64, offset: u64, bytes: u64, protection: u32) -> Vec<u8> {
    let mut body = [0u8; 16].to_vec();
    body[..name.len()].copy_from_slice(name.as_bytes());
    for n in [address, vm_bytes, offset, bytes] {
        body.extend(n.to_le_bytes());
    }
    for n in [protection, protection, 0, 0] {
        body.extend(n.to_le_bytes());
    }
    command(0x19, &body)
}

impl Builder {
    pub(super) fn new(data: &[u8]) -> Builder {
        Builder { data: data.to_vec(), linkedit: Vec::new(), commands: Vec::new(), cpu: (0x0100_000c, 0) }
    }

    /// Where the next table of `__LINKEDIT` begins in the file.
    pub(super) fn linkedit_offset(&self) -> u32 {
        u32::try_from(TEXT as usize + self.data.len() + self.linkedit.len()).unwrap()
    }

    /// Adds a table and the linkedit_data_command that points at it.
    pub(super) fn table(&mut self, id: u32, bytes: &[u8]) {
        let mut body = self.linkedit_offset().to_le_bytes().to_vec();
        body.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        self.linkedit.extend(bytes);
        self.commands.push(command(id, &body));
    }

    pub(super) fn command(&mut self, id: u32, body: &[u8]) {
        self.commands.push(command(id, body));
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let data = self.data.len() as u64;
        let linkedit = self.linkedit.len() as u64;
        let mut commands = vec![
            segment("__TEXT", 0x1_0000_0000, TEXT, 0, TEXT, 5),
            segment("__DATA", 0x1_0000_0000 + TEXT, data, TEXT, data, 3),
            segment("__LINKEDIT", 0x1_0000_0000 + TEXT + data, linkedit, TEXT + data, linkedit, 1),
        ];
        commands.extend(self.commands.iter().cloned());
        let size: usize = commands.iter().map(Vec::len).sum();
        let mut out = Vec::new();
        for n in [0xfeed_facf, self.cpu.0, self.cpu.1, 2, commands.len() as u32, size as u32, 0x20_0085, 0] {
            out.extend(n.to_le_bytes());
        }
        commands.iter().for_each(|c| out.extend(c));
        assert!(out.len() <= TEXT as usize);
        out.resize(TEXT as usize, 0);
        out.extend(&self.data);
        out.extend(&self.linkedit);
        out
    }
}

/// An image whose segment 1 holds these bytes.
pub(super) fn image_with_data(data: &[u8]) -> Vec<u8> {
    Builder::new(data).build()
}

/// A number of seven bits a byte.
pub(super) fn uleb(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

/// A xorshift generator: the same damage everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
