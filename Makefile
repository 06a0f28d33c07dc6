# make          the release binary, one static file, at target/premain (gets Rust's musl target by rustup if it can)
# make demo     builds it and runs the main job on a real program of this machine
# make test     all tests
# make bench    timing, as ratios within one interleaved run: our overhead, our own start
# make verify   closures, look-ups, link facts and traces against the loaders, readelf, perf and strace of this machine
# make verify-bench  A/A runs, a known effect, our own memory
# make lint     rustfmt and clippy
# make check-mac, check-arm  type-check the halves for macOS and aarch64 Linux, which are not run here
# make fixtures  build the Mach-O fixtures anew (clang-19, lld-19, llvm-19, python3)
# make experiments-quick  link settings: facts checked, large effects measured (gcc, lld, mold, musl-tools, python3)
# make experiments  all of linker-experiments/, into $(RESULTS); one: linker-experiments/run NAME
# make verify-check  does 'check' find a planted 5 %, and nothing where there is none, while others load the machine; 7 minutes
# make verify-trace  what observing costs, and relocation's share against LD_DEBUG; want a quiet machine, 2 minutes
# make verify-model  predictions against measurements on the programs of /usr/bin; want a quiet machine, 4 minutes
# make verify-calibrate  two calibrations of this host against each other; want a quiet machine, 2 minutes
# make install  to $(DESTDIR)$(PREFIX)/bin

HOST   := $(shell rustc -vV | sed -n 's/^host: //p')
MUSL   := $(shell echo $(HOST) | sed 's/-gnu$$/-musl/')
HAVE_MUSL := test -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)"
# The musl target, whose libc is small; else the host's own libc, linked statically: 1 MB more.
TARGET  = $(shell $(HAVE_MUSL) && echo $(MUSL) || echo $(HOST))
# Never a PIE: a static PIE would relocate itself at each start.
STATIC := -C target-feature=+crt-static -C relocation-model=static -C force-unwind-tables=no
# With panic=abort nothing unwinds; the standard library's unwind tables are 0.3 MB all the same. GNU ld and lld can
# leave them out, other linkers keep them.
DROP   := SECTIONS { /DISCARD/ : { *(EXCLUDE_FILE(*crtbegin*.o *crtend*.o) .eh_frame) *(.gcc_except_table*) } } INSERT BEFORE .init;
UNWIND  = $(shell cc -Wl,--version 2>/dev/null | grep -qE 'GNU ld|LLD' && echo -C link-arg=-Wl,-T,$(abspath $(OUT))/unwind.ld)
OUT    := $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= /usr/local

.PHONY: verify-calibrate verify-check verify-trace verify-bench verify-model all build musl demo test bench lint check-mac check-arm fixtures install clean verify experiments experiments-quick

all: build

build: musl
	@mkdir -p $(OUT)
	@echo '$(DROP)' >$(OUT)/unwind.ld
	RUSTFLAGS="$(STATIC) $(if $(findstring musl,$(TARGET)),$(UNWIND)) $(RUSTFLAGS)" cargo build --release --locked --target $(TARGET)
	cp $(OUT)/$(TARGET)/release/premain $(OUT)/premain.new
	mv $(OUT)/premain.new $(OUT)/premain

musl:
	@$(HAVE_MUSL) || timeout 120 rustup target add $(MUSL) >/dev/null 2>&1 || \
		echo "make: no target $(MUSL) here and none to be had: linking with the host's libc, which is larger" >&2

demo: build
	$(OUT)/premain git --version

test:
	cargo test --locked

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

check-mac:
	.ci/check-foreign mac

check-arm:
	.ci/check-foreign arm

fixtures:
	fixtures/macho/make.sh
	fixtures/macho/expected.py >fixtures/macho/expected.json

bench: build
	PREMAIN=$(abspath $(OUT))/premain cargo bench --locked --bench overhead

experiments-quick: build
	linker-experiments/run --quick --premain $(OUT)/premain

RESULTS ?= linker-experiments/results
experiments: build
	linker-experiments/run --premain $(OUT)/premain --out $(RESULTS)

verify-model: build
	tests/verify/model.py $(abspath $(OUT))/premain --model $(abspath $(OUT))/model-verify.json --out tests/verify/model-results.json

# Against what the loaders of this machine really do, on all its programs; none of their mains is run.
verify: build
	python3 tests/verify/loader.py --premain $(OUT)/premain
	python3 tests/verify/elf.py --premain $(OUT)/premain
	python3 tests/verify/trace.py --premain $(OUT)/premain --only sums,faults,syscalls,order

verify-calibrate: build
	tests/verify/calibrations.py $(abspath $(OUT))/premain --out tests/verify/results/calibrations.txt

verify-check: build
	python3 tests/verify/check_power.py $(OUT)/premain

# A/A runs, a known effect, our own memory: wants a quiet machine.
verify-bench: build
	python3 tests/verify/bench_power.py $(OUT)/premain

install: build
	install -D -m 755 $(OUT)/premain $(DESTDIR)$(PREFIX)/bin/premain

clean:
	cargo clean

verify-trace: build
	python3 tests/verify/trace.py --premain $(OUT)/premain --only share,distortion
