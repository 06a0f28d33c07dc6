# make          the release binary, one static file, at target/premain
# make demo     builds it and runs the main job on a real program of this machine
# make test     all tests
# make bench    timing, as ratios within one interleaved run: our overhead, our own start
# make lint     rustfmt and clippy
# make install  to $(DESTDIR)$(PREFIX)/bin

HOST   := $(shell rustc -vV | sed -n 's/^host: //p')
MUSL   := $(shell echo $(HOST) | sed 's/-gnu$$/-musl/')
# The musl target where it is installed; else the host's own libc, linked statically. Never a PIE: a static PIE
# would relocate itself at each start.
TARGET := $(shell test -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)" && echo $(MUSL) || echo $(HOST))
STATIC := -C target-feature=+crt-static -C relocation-model=static
OUT    := $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= /usr/local

.PHONY: all build demo test bench lint install clean verify

all: build

build:
	RUSTFLAGS="$(STATIC) $(RUSTFLAGS)" cargo build --release --locked --target $(TARGET)
	cp $(OUT)/$(TARGET)/release/premain $(OUT)/premain.new
	mv $(OUT)/premain.new $(OUT)/premain

demo: build
	$(OUT)/premain git --version

test:
	cargo test --locked

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

bench: build
	PREMAIN=$(abspath $(OUT))/premain cargo bench --locked --bench overhead

install: build
	install -D -m 755 $(OUT)/premain $(DESTDIR)$(PREFIX)/bin/premain

clean:
	cargo clean
