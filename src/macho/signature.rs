//! What the code signature says of the cost to start: its size, and how many pages the kernel hashes at first touch.

use object::BigEndian;
use object::macho;
use object::read::macho::CodeSignature;

use super::stream::Fault;
use crate::facts::macho::MachoSignature;

/// Reads a signature.
///
/// # Errors
/// It has no index of blobs.
pub(super) fn read(bytes: &[u8]) -> Result<MachoSignature, Fault> {
    let mut found = MachoSignature { bytes: bytes.len() as u64, ..MachoSignature::default() };
    let signature = CodeSignature::parse(bytes).map_err(|e| e.to_string())?;
    for blob in signature.blobs() {
        let Ok(blob) = blob else { continue };
        if blob.slot() != macho::CSSLOT_CODEDIRECTORY {
            continue;
        }
        if let Ok(Some(directory)) = blob.code_directory() {
            let header = directory.header();
            found.adhoc = Some(header.flags.get(BigEndian).contains(macho::CS_ADHOC));
            // Not more hashes than there is room for.
            let room = (blob.data().len() as u64).checked_div(header.hash_size.into()).unwrap_or(0);
            found.page_hashes = u64::from(header.n_code_slots.get(BigEndian)).min(room);
        }
        // The first is the one that the kernel reads where it knows its kind of hash.
        break;
    }
    Ok(found)
}
