"""Chromium as a person uses it: open a page, point, click, type, and read what is shown."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)
PATIENCE = 20.0  # seconds for a page to draw itself


def missing() -> str | None:
    """What is missing to drive Chromium; None if nothing is."""
    if CHROMIUM is None or DRIVER is None:
        return "there is no chromium with its chromedriver (make browser installs them for root)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    return None


class Browser:
    """One headless Chromium with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        self.driver.get("about:blank")
        self._log("performance")
        self.opened = ""

    def close(self) -> None:
        self.driver.quit()

    def media(self, dark: bool = False, width: int = 1280, height: int = 1000) -> None:
        """Prefer dark or light colours on a screen of a size."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def _log(self, kind: str) -> list[Any]:
        """Return what was logged since this was asked last."""
        found: list[Any] = self.driver.execute("getLog", {"type": kind})["value"]
        return found

    def open(self, page: Path) -> None:
        """Open a page and wait until all of it is drawn."""
        self.visit(page.as_uri())

    def visit(self, address: str) -> None:
        """Do the same with the page at an address."""
        self._log("performance")
        self._log("browser")
        self.opened = address
        self.driver.get(self.opened)
        latest = time.monotonic() + PATIENCE
        while not self.run("return document.documentElement.dataset.ready === 'yes'"):
            assert time.monotonic() < latest, self._log("browser")
            time.sleep(0.02)

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its result."""
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        """Return the elements that a selector finds."""
        return list(self.driver.find_elements("css selector", selector))

    def click(self, selector: str, number: int = 0) -> None:
        """Click an element with the mouse."""
        from selenium.webdriver import ActionChains

        element = self._in_sight(selector, number)
        ActionChains(self.driver, duration=0).move_to_element(element).click().perform()

    def point(self, selector: str, number: int = 0, right: int = 0, down: int = 0) -> None:
        """Move the mouse over an element, so many pixels off its middle."""
        from selenium.webdriver import ActionChains

        element = self._in_sight(selector, number)
        move = ActionChains(self.driver, duration=0)
        move.move_to_element_with_offset(element, right, down).perform()

    def _in_sight(self, selector: str, number: int) -> Any:
        """Return an element where it stands when the sections that came into sight are drawn."""
        element = self.all(selector)[number]
        for _ in range(2):
            self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
            self.settle()
        return element

    def focus(self, selector: str, number: int = 0) -> None:
        """Put the keyboard's focus on an element."""
        self.run("arguments[0].focus()", self.all(selector)[number])

    def press(self, *keys: str) -> None:
        """Press keys: the names of selenium's Keys, or characters."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.keys import Keys

        chain = ActionChains(self.driver, duration=0)
        for key in keys:
            chain.send_keys(getattr(Keys, key, key))
        chain.perform()

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        """Return the text of every element that a selector finds."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        return list(self.run(script, selector))

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 30)"
        )

    def saved_pictures(self) -> list[str]:
        """Click every button that saves a picture, and return the files."""
        script = """
const made = [];
const before = URL.createObjectURL;
URL.createObjectURL = (blob) => { made.push(blob); return before(blob); };
for (const button of document.querySelectorAll("figcaption button")) button.click();
const done = arguments[0];
Promise.all(made.map((blob) => blob.text())).then(done);
"""
        return list(self.driver.execute_async_script(script))

    def requests(self) -> list[str]:
        """Return what was fetched since the page was opened, the page itself left out."""
        found = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if url != self.opened]

    def complaints(self) -> list[str]:
        """Return what the page wrote to the console, warnings and errors of the browser too."""
        return [entry["message"] for entry in self._log("browser")]

    def dialog(self) -> str | None:
        """Return the text of an open dialog, which is closed; None if there is none."""
        from selenium.common.exceptions import NoAlertPresentException

        try:
            alert = self.driver.switch_to.alert
            text = alert.text
            alert.dismiss()
        except NoAlertPresentException:
            return None
        return str(text)

    def quiet(self) -> None:
        """See that the page fetched nothing, complained of nothing and opened no dialog."""
        found = {
            "dialog": self.dialog(),
            "requests": self.requests(),
            "console": self.complaints(),
        }
        assert not any(found.values()), found


def numbers(texts: Sequence[str]) -> list[float]:
    """Return printed numbers."""
    return [float(text.replace("−", "-")) for text in texts]
